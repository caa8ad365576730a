# After an upgrade: running services restart, and instances without a service get this version. Limits stay in force.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart ratelimit.service ratelimit-check.service ||
        echo "ratelimit: a service did not restart, its limits stay in force: systemctl status ratelimit ratelimit-check" >&2
fi
for control in /sys/fs/bpf/*/CONTROL; do
    [ -e "$control" ] || continue
    instance=${control%/CONTROL}
    /usr/sbin/ratelimit --pins "$instance" upgrade >/dev/null ||
        echo "ratelimit: the limits of $instance stay in force: correct this, and run ratelimit --pins $instance upgrade" >&2
done
