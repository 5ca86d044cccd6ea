"""Print how often each effect was applied: what `--effects-command` asks for."""

import json
import sqlite3
import sys

rows = sqlite3.connect(sys.argv[1]).execute("select id, times from applied")
sys.stdout.write(json.dumps(dict(rows)))
