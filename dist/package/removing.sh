# Before a removal: services end, and so do all limits, since no command could end them later.
if [ -d /run/systemd/system ]; then
    systemctl stop ratelimit.service ratelimit-check.service || true
fi
if command -v systemctl >/dev/null; then
    systemctl disable ratelimit.service ratelimit-check.service >/dev/null 2>&1 || true
fi
for control in /sys/fs/bpf/*/CONTROL; do
    [ -e "$control" ] || continue
    /usr/sbin/ratelimit --pins "${control%/CONTROL}" detach --all
done
