# After a purge: state files, users and groups.
rm -rf /var/lib/ratelimit /var/lib/ratelimit-check
if getent passwd ratelimit-check >/dev/null; then userdel ratelimit-check; fi
if getent group ratelimit-check >/dev/null; then groupdel ratelimit-check; fi
if getent group ratelimit >/dev/null; then groupdel ratelimit; fi
