#!/usr/bin/env bash
# Checks a running stack with several nodes from outside, in the folder of docker-compose.yml; kills one of them.
#   COMPOSE="docker compose -f docker-compose.yml -f tests/deploy/stack/compose.yml" tests/deploy/stack/check_nodes.sh 3
set -euo pipefail
read -ra compose <<< "${COMPOSE:-docker compose}"
nodes=${1:-3}
api=http://127.0.0.1:8080

say() { printf '%s\n' "-- $*"; }
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
patiently() { # up to two minutes for a command to succeed
  for _ in $(seq 120); do "$@" > /dev/null 2>&1 && return 0; sleep 1; done
  "$@" || die "it did not happen in time: $*"
}
within() { "${compose[@]}" exec -T "$@"; }
get() { curl -fsS -H "Authorization: Bearer $token" "$api/api/v1/$1"; }
of() { python3 -I -c "import json, sys; it = json.load(sys.stdin); print($1)"; }

"${compose[@]}" up --detach --no-build --pull never --scale "pollerd=$nodes"
patiently curl -fsS "$api/readyz"
token=$(within pollerd cat /run/pollerd-secrets/token)

say "$nodes nodes, each healthy, hold all partitions, as evenly as can be"
healthy() { [ "$("${compose[@]}" ps --format '{{.Service}} {{.Health}}' | grep -c '^pollerd healthy')" = "$1" ]; }
even() { # whether $1 nodes hold all partitions
  get cluster | of "len(it['nodes']) == $1 and it['unheld'] == 0 and max(n['partitions'] for n in it['nodes']) - min(n['partitions'] for n in it['nodes']) <= 1" | grep -qx True
}
patiently healthy "$nodes"
patiently even "$nodes"
get cluster | of "'\n'.join(f\"{n['name']} {n['partitions']} partitions\" for n in it['nodes'])"

say "each site is there once, whichever node read the list"
listed=$(grep -cvE '^\s*(#|$)' "${SITES:-tests/deploy/stack/sites.txt}")
[ "$(get 'sites?limit=100' | of "len(it['items'])")" = "$listed" ] || die "there are other sites than in the list"

say "changes are found, and every node tells what only another one knows"
newest() { get 'changes?limit=1' | of "it['items'][0]['id'] if it['items'] else 0"; }
found_since() { [ "$(newest)" -gt "$1" ]; }
patiently found_since 0
for site in $(get 'sites?limit=100' | of "' '.join(str(s['id']) for s in it['items'])"); do
  for _ in $(seq "$nodes"); do get "sites/$site/explain" > /dev/null || die "site $site is not explained"; done
done

say "Prometheus scrapes every node"
up() { within pollerd python -I -c "import json, urllib.request as u; it = json.load(u.urlopen('http://prometheus:9090/api/v1/query?query=sum(up%7Bjob=%22pollerd%22%7D)')); assert it['data']['result'][0]['value'][1] == '$1', it"; }
patiently up "$nodes"

say "one node is killed: the others take its partitions and find changes again"
victim=$("${compose[@]}" ps --quiet pollerd | tail -1)
docker kill "$victim" > /dev/null
patiently even "$((nodes - 1))"
sleep 20  # as long as a request of the dead node may take
patiently found_since "$(newest)"
fresh() { # whether every site was polled within the last half minute, but for those that fail or rarely change
  get 'sites?limit=100' | of "all(s['last_poll_at'] and $(date +%s) - __import__('datetime').datetime.fromisoformat(s['last_poll_at'].replace('Z', '+00:00')).timestamp() < 30 for s in it['items'] if s['url'].rpartition('/')[2].isdigit())" | grep -qx True
}
patiently fresh
say "all is well"
