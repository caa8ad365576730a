# After an upgrade: running services restart, and instances without a daemon get this version. Limits stay in force.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart ratelimit.service ratelimit-check.service ||
        echo "ratelimit: a service did not restart, its limits stay in force:" \
            "systemctl status ratelimit ratelimit-check" >&2
fi
for instance in /sys/fs/bpf/*; do
    is_instance "$instance" || continue
    if has_daemon "$instance"; then
        # A daemon in a container, or one that an operator has started. It could change nothing any more.
        /usr/sbin/ratelimit --pins "$instance" status >/dev/null 2>&1 ||
            echo "ratelimit: the daemon of $instance keeps its version: end it, and start this version" >&2
    else
        /usr/sbin/ratelimit --pins "$instance" upgrade >/dev/null ||
            echo "ratelimit: the limits of $instance stay in force: correct this, and run" \
                "ratelimit --pins $instance upgrade" >&2
    fi
done
