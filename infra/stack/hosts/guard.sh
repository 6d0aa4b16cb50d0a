# A command, killed when nothing says within $1 s, and those said last, how long it may go on.
exec 3<&0
(while read -r -t "$1" -u 3 left || { [ $? -gt 128 ] && kill -KILL $$; exit; }; do set -- "$left"; done) &
exec 3<&-
shift
exec "$@" < /dev/null
