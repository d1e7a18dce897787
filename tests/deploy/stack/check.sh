#!/usr/bin/env bash
# Checks a running stack from outside, in the folder of docker-compose.yml. COMPOSE: how to call compose for it.
#   COMPOSE="docker compose -f docker-compose.yml -f tests/deploy/stack/compose.yml" tests/deploy/stack/check.sh
set -euo pipefail
read -ra compose <<< "${COMPOSE:-docker compose}"
api=http://127.0.0.1:8080

say() { printf '%s\n' "-- $*"; }
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
within() { "${compose[@]}" exec -T "$@"; }
status() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
metric() { curl -fsS "$api/metrics" | awk -v name="$1" 'index($1, name) == 1 {sum += $2} END {printf "%d\n", sum}'; }
patiently() { # up to two minutes for a command to succeed
  for _ in $(seq 120); do "$@" > /dev/null 2>&1 && return 0; sleep 1; done
  "$@" || die "it did not happen in time: $*"
}

say "the API is ready, and asks for a token"
patiently curl -fsS "$api/readyz"
token=$(within pollerd cat /run/pollerd-secrets/token)
[ "$(status "$api/api/v1/sites")" = 401 ] || die "sites are told without a token"
[ "$(status -H "Authorization: Bearer $token" "$api/api/v1/sites")" = 200 ] || die "the token is not taken"
within pollerd pollerd sites list > /dev/null || die "pollerd sites list does not work inside"

say "polls happen and changes are found"
polls_made() { [ "$(metric pollerd_polls_total)" -gt 20 ]; }
changes_found() { [ "$(metric pollerd_changes_total)" -gt 2 ]; }
patiently polls_made
patiently changes_found
curl -fsS "$api/metrics" | grep '^pollerd_polls_total' | grep -v ' 0.0$'

say "Prometheus' target is up, and every query answers"
if within prometheus sh -c 'command -v promtool' > /dev/null; then
  within prometheus promtool check config /etc/prometheus/prometheus.yml
  within prometheus promtool test rules /etc/prometheus/alerts.test.yml
else
  say "NOT CHECKED: rules by promtool, which this image has not"
fi
query() { "${compose[@]}" run --rm --no-deps -T -v "$PWD/deploy:/deploy:ro" --entrypoint python pollerd \
  -I /deploy/check_queries.py http://prometheus:9090; }
patiently query
query

say "containers: no root, nothing to write, no powers, no pip"
for service in pollerd postgres prometheus; do
  within "$service" sh -c '[ "$(id -u)" != 0 ]' || die "$service runs as root"
  within "$service" sh -c '! touch /probe 2> /dev/null' || die "$service can write to its root"
  within "$service" sh -c 'grep -q "^CapEff:[[:space:]]*0*$" /proc/1/status && grep -q "^NoNewPrivs:[[:space:]]*1" /proc/1/status' \
    || die "$service has powers"
done
within pollerd sh -c '! command -v pip && ! python -c "import pip" 2> /dev/null && ! command -v gcc' || die "pip or gcc is in the image"
within pollerd sh -c 'ls -ln /run/pollerd-secrets'
within pollerd sh -c '! cat /run/pollerd-secrets/grafana_admin_password 2> /dev/null' || die "pollerd reads what is not its own"

say "only loopback ports, and neither database nor Prometheus among them"
"${compose[@]}" ps --format '{{.Service}} {{.Ports}}'
! "${compose[@]}" ps --format '{{.Ports}}' | grep -E '(0\.0\.0\.0|\[::\]):[0-9]+->' || die "a port is open to the world"
[ "$(status --max-time 3 http://127.0.0.1:9090/)" = 000 ] || say "note: something else answers on 9090 of this machine"

backup_and_restore() {
  local dump before count='SELECT count(*) FROM site'
  dump=$(mktemp)
  trap 'rm -f "$dump"' RETURN
  within postgres pg_dump --username=pollerd --format=custom pollerd > "$dump"
  "${compose[@]}" stop pollerd
  before=$(within postgres psql --username=pollerd -Atc "$count" pollerd)
  within postgres psql --username=pollerd --quiet --single-transaction \
    -c 'DROP SCHEMA public CASCADE' -c 'CREATE SCHEMA public' pollerd
  within postgres pg_restore --username=pollerd --dbname=pollerd --single-transaction --exit-on-error < "$dump"
  [ "$before" -gt 0 ] && [ "$(within postgres psql --username=pollerd -Atc "$count" pollerd)" = "$before" ] || die "sites are missing"
}
major() { within postgres "$1" --version | grep -oE '[0-9]+' | head -1; }
if [ "$(major pg_dump)" = "$(major postgres)" ]; then
  say "backup and restore"
  backup_and_restore
else
  say "NOT CHECKED: backup and restore, for this image's pg_dump is older than its server"
fi

say "a second start keeps every secret, and goes on"
"${compose[@]}" up --detach --no-build --pull never
patiently curl -fsS "$api/readyz"
[ "$(within pollerd cat /run/pollerd-secrets/token)" = "$token" ] || die "the token changed"
patiently polls_made
say "all is well"
