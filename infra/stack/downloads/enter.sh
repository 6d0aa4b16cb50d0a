root=$1; data=$2; config=$3; user=$4; shift 4
mount --rbind /dev "$root/dev" &&
mount --bind /proc "$root/proc" &&
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp" &&
mount --bind /etc/passwd "$root/etc/passwd" &&
mount --bind /etc/group "$root/etc/group" &&
mount --bind "$data" "$root/srv" &&
mount --bind "$config" "$root/mnt" &&
cd / &&
exec chroot --userspec="$user:$user" --groups= "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  LANG=C.UTF-8 TZ=UTC HOME=/srv "$@"
