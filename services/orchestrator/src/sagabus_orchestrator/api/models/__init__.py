"""What the API takes and says, as pydantic models: the source of the OpenAPI document."""

__all__: list[str] = []
