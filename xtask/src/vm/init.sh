#!/bin/busybox sh
# The first process of a guest: prepares it, runs /job, and turns it off.
# What the job prints and its exit status go to the second serial port.
export PATH=/usr/sbin:/usr/bin:/bin HOME=/ RATELIMIT_BIN=/usr/sbin/ratelimit
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
for module in /modules/*.ko; do
    insmod "$module" || echo "cannot load $module"
done
stty -F /dev/ttyS1 raw
cd /tests
/job >/dev/ttyS1 2>&1
echo "guest rc=$?" >/dev/ttyS1
poweroff -f
