#!/bin/busybox sh
# The first process of a guest: prepares it, runs /job, and turns it off.
# The output of the job and its exit status go to the second serial port.
export PATH=/usr/sbin:/usr/bin:/bin HOME=/ RATELIMIT_BIN=/usr/sbin/ratelimit
# Allows tests to use the network cards of the guest.
export RATELIMIT_GUEST=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
# Otherwise, each network namespace gets a tunnel of every kind.
echo 1 >/proc/sys/net/core/fb_tunnels_only_for_init_net
for module in /modules/*.ko; do
    insmod "$module" || echo "cannot load $module"
done
# On 6.1, packets wait for ksoftirqd while it is awake. If it shared its CPU with the sender of a flood, the ring would overflow:
# sandbox tests failed in one run of three.
for process in /proc/[0-9]*; do
    read -r name <"$process/comm"
    case $name in ksoftirqd/*) chrt --fifo --pid 1 "${process#/proc/}" ;; esac
done
stty -F /dev/ttyS1 raw
cd /tests
/job >/dev/ttyS1 2>&1
echo "guest rc=$?" >/dev/ttyS1
poweroff -f
