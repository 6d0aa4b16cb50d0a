#!/bin/sh
# The Python of a cluster's workers: from the archive that Spark has put beside it (environment.py).
#
# It is unpacked once for its SHA-256 into the folder CACHE, whole or not at all, by one executor of a host while
# others wait. A folder is of this start of the machine: nothing in it was half written when power went. Who runs
# from it holds a lock on it: others are removed when a new one comes.
set -eu
PYTHONPATH=${PYTHONPATH:-}
archive=$(dirname "$0")/$ODOGRAPH_ENVIRONMENT
sha256=${ODOGRAPH_ENVIRONMENT_SHA256:-$(sha256sum "$archive" | cut -c-64)}
mkdir -p -m 700 "${ODOGRAPH_ENVIRONMENT_CACHE:-.}"
cache=$(cd "${ODOGRAPH_ENVIRONMENT_CACHE:-.}" && pwd)
home=$cache/environment-$sha256-$(cat /proc/sys/kernel/random/boot_id)
exec 9>"$cache/.environments"
flock 9
if [ ! -d "$home" ]; then
    echo "$sha256  $archive" | sha256sum -c --status || { echo "$archive is not what was sent" >&2; exit 1; }
    for other in "$cache"/environment-*; do
        [ ! -d "$other" ] || flock -n "$other" rm -rf "$other" || true
    done
    mkdir "$home.draft"
    tar -xzf "$archive" -C "$home.draft"
    mv "$home.draft" "$home"
fi
exec 8<"$home"
flock -s 8
exec 9>&-
# Spark's own Python is a zip, compiled at each start; of the same version the archive has it ready-made.
for jar in "${SPARK_HOME:-}"/jars/spark-core_*-"${ODOGRAPH_ENVIRONMENT_SPARK:-}".jar; do
    [ ! -e "$jar" ] || PYTHONPATH=${PYTHONPATH#*/py4j-*-src.zip:}
done
export LD_LIBRARY_PATH="$home/lib" PYTHONPATH
exec "$home/bin/python3" "$@"
