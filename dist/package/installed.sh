# After an installation: users and groups of the services. No service starts, and nothing is limited.
getent group ratelimit >/dev/null || groupadd --system ratelimit
getent group ratelimit-check >/dev/null || groupadd --system ratelimit-check
getent passwd ratelimit-check >/dev/null || useradd --system --gid ratelimit-check \
    --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin ratelimit-check
