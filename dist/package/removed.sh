# After a removal: folders of sockets.
rm -rf /run/ratelimit /run/ratelimit-check
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
