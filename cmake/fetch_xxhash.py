"""Takes xxhash.h out of the xxhash package's source archive (PyPI) into the folder given as argument."""

import pathlib
import subprocess
import sys
import tarfile
import tempfile

pip = [sys.executable, "-m", "pip"]
out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as tmp:
    subprocess.run(
        [*pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", tmp, "xxhash==3.5.0"],
        check=True,
    )
    archive = next(pathlib.Path(tmp).glob("*.tar.gz"))
    with tarfile.open(archive) as tar:
        member = next(m for m in tar.getmembers() if m.name.endswith("/xxhash.h"))
        (out / "xxhash.h").write_bytes(tar.extractfile(member).read())
