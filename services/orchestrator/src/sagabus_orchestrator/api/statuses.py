"""The HTTP status of each code that can reach a caller; contracts/errors.md says the same."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["STATUS_OF"]

_CODES: Final[Mapping[int, tuple[str, ...]]] = {
    400: (
        *("invalid_json", "duplicate_key", "nul_character", "lone_surrogate", "unsafe_integer"),
        *("non_finite_number", "json_too_deep", "not_canonicalisable", "missing_body"),
        *("missing_header", "invalid_header", "unknown_version", "header_body_mismatch"),
        *("identity_mismatch", "too_old", "too_new", "unknown_topic", "missing_field"),
        *("invalid_field", "invalid_instant", "invalid_key", "invalid_name"),
        *("invalid_reason_code", "forbidden_combination", "invalid_operation", "invalid_quota"),
        *("invalid_cursor", "invalid_limit", "invalid_request", "invalid_key_request"),
    ),
    401: (
        *("credentials_missing", "credentials_ambiguous", "token_invalid", "token_expired"),
        *("key_invalid", "key_expired", "key_revoked"),
    ),
    403: (
        *("producer_mismatch", "manual_close_disabled", "permission_denied"),
        *("signature_missing", "signature_invalid"),
    ),
    404: ("definition_unknown", "unknown_saga", "not_found", "nothing_parked", "route_unknown"),
    405: ("method_not_allowed",),
    408: ("request_timeout",),
    409: (
        *("definition_inactive", "request_conflict", "attempt_never_issued"),
        *("definition_mismatch", "unknown_activation", "condition_error", "ambiguous_key"),
        *("precondition_failed", "operation_id_reused", "dead_letter_closed"),
        *("earlier_letter_open", "still_refused", "command_expired", "not_redrivable"),
        *("edit_not_allowed", "dead_letter_unreadable", "definition_conflict"),
        *(
            "definition_in_use",
            "topics_missing",
            "idempotency_key_reused",
            "key_name_taken",
            "bulk_too_large",
            "bulk_scan_too_long",
            "issuing_held",
        ),
    ),
    410: ("events_gone",),
    412: ("stale_snapshot",),
    413: ("body_too_large", "definition_too_large", "record_too_large"),
    415: ("unsupported_media_type",),
    422: (
        *("payload_contract_mismatch", "invalid_result", "invalid_attestation"),
        *("evidence_missing", "edit_changes_command", "store_rejected", "record_invalid"),
        *("unreadable_record", "invalid_definition"),
    ),
    429: ("tenant_quota_exceeded", "rate_limit_exceeded", "caller_busy"),
    431: ("head_too_large",),
}

STATUS_OF: Final[Mapping[str, int]] = MappingProxyType(
    {code: status for status, codes in _CODES.items() for code in codes}
)
"""What is not named is a defect (500), or an outage where it is retryable (503)."""
