"""Makes the secrets of the Compose stack that are not there yet, each readable by the one user who needs it.

    make_secrets.py FOLDER

A secret that is there is never changed: delete its file and start again to get another. The database's password is the
exception: PostgreSQL keeps the one it was first started with, so it and the URL that holds it are made together, once.
"""

from __future__ import annotations

import base64
import os
import secrets
import sys
from pathlib import Path

POLLERD, POSTGRES, GRAFANA = 10001, 999, 472
"""User ids in the images."""
_READ_BY_OWNER = 0o400
_ENTER_BY_ALL = 0o755
_BYTES = 32


def main(folder: Path) -> None:
    """Fills the folder. Raises OSError where it cannot be written."""
    os.chmod(folder, _ENTER_BY_ALL)
    # The password last: once it is there, PostgreSQL may have taken it, and the URL with it must be there too.
    if not (folder / "database_password").exists():
        password = secrets.token_urlsafe(_BYTES)
        _write(folder / "database_url", f"postgresql+asyncpg://pollerd:{password}@postgres/pollerd", POLLERD)
        _write(folder / "database_password", password, POSTGRES)
    if not (folder / "database_url").exists():
        sys.exit(f"{folder}/database_url was deleted, and its password cannot be told: put it back from a backup")
    for name, owner in (("token", POLLERD), ("read_token", POLLERD), ("grafana_admin_password", GRAFANA)):
        if not (folder / name).exists():
            _write(folder / name, secrets.token_urlsafe(_BYTES), owner)
    # What sites' credentials are sealed with is a key of a cipher, so its form is given.
    if not (folder / "secret_key").exists():
        _write(folder / "secret_key", base64.urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode("ascii"), POLLERD)


def _write(path: Path, text: str, owner: int) -> None:
    """Whole or not at all, also when the power goes in between."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READ_BY_OWNER)
    with os.fdopen(file, "w", encoding="ascii") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())
        os.fchown(out.fileno(), owner, owner)
    os.replace(draft, path)
    print(f"made {path.name}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
