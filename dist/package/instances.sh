# Returns whether a folder of pins is an instance, whichever version has made it. Other tools pin maps too, and some may
# have one of these names.
is_instance() {
    for pin in program CONTROL BUCKETS COUNTERS EVENTS; do
        [ -e "$1/$pin" ] || return 1
    done
}
# Returns whether a daemon has an instance, also one in a container.
has_daemon() {
    [ -d "$1/daemon" ] && ! flock --nonblock "$1/daemon" true
}
