# Before a removal: services end, and so do limits that no daemon keeps, since the package has the command for it.
if [ -d /run/systemd/system ]; then
    systemctl stop ratelimit.service ratelimit-check.service ||
        echo "ratelimit: a service does not end: systemctl status ratelimit ratelimit-check" >&2
fi
for instance in /sys/fs/bpf/*; do
    is_instance "$instance" || continue
    if has_daemon "$instance"; then
        # A daemon in a container, or one that an operator has started.
        echo "ratelimit: a daemon keeps the limits of $instance, so they stay in force" >&2
    # Only an instance that this version understands is certainly none of another tool.
    elif ! /usr/sbin/ratelimit --pins "$instance" status >/dev/null ||
        ! /usr/sbin/ratelimit --pins "$instance" detach --all >/dev/null; then
        echo "ratelimit: $instance stays. If it is an instance of ratelimit, its limits stay in force: correct this," \
            "install ratelimit again, and run ratelimit --pins $instance detach --all" >&2
    fi
done
if command -v systemctl >/dev/null; then
    systemctl disable ratelimit.service ratelimit-check.service >/dev/null 2>&1 ||
        echo "ratelimit: the services stay enabled: systemctl disable ratelimit ratelimit-check" >&2
fi
