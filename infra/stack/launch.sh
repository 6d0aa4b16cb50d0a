file=$1; signal=$2; shift 2
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
read -r stat < /proc/$$/stat
rest=${stat##*) }
ticks=$(echo "$rest" | cut -d' ' -f20)
printf '%s\n%s\n%s\n' $$ "$ticks" "$signal" > "$file.new" && mv "$file.new" "$file" && exec "$@"
