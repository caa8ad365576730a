# After a purge: configuration and state files, users and groups.
rm -rf /etc/ratelimit /var/lib/ratelimit /var/lib/ratelimit-check
rm -rf /etc/systemd/system/ratelimit.service.d /etc/systemd/system/ratelimit-check.service.d
if getent passwd ratelimit-check >/dev/null; then
    userdel ratelimit-check ||
        echo "ratelimit: the user ratelimit-check stays: end its processes, run userdel ratelimit-check" >&2
fi
for group in ratelimit-check ratelimit; do
    if getent group "$group" >/dev/null; then
        groupdel "$group" ||
            echo "ratelimit: the group $group stays: give its users another one, and run groupdel $group" >&2
    fi
done
