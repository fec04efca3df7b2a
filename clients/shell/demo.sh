#!/usr/bin/env bash
# A demo of the client: `demo.sh push`, then `demo.sh work` (until SIGTERM), `demo.sh lock`.
#
#     DUETIME_SERVER=http://127.0.0.1:7300 ./demo.sh push
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/duetime.sh"

queue=demo-shell

# Exits if the server refuses a call.
ok() {
  local answer
  if ! answer=$("$@"); then
    jq -r '"\(.code): \(.detail)"' <<<"$answer" >&2
    exit 1
  fi
  printf '%s\n' "$answer"
}

refused() {
  jq -r '"refused \(.code) \(.status)"' <<<"$1"
}

push() {
  local mail='{"kind": "mail.welcome", "payload": {"to": "Zoë"}, "delay": "200ms", "key": "welcome-1", "tags": ["demo", "user:1"]}'
  local answer reminder
  answer=$(ok duetime_push $queue "$mail") || exit
  echo "welcome $(jq -r .outcome <<<"$answer")"
  # The same key again: there is still one job.
  answer=$(ok duetime_push $queue "$mail") || exit
  echo "welcome again $(jq -r .outcome <<<"$answer")"
  ok duetime_push $queue '{"kind": "mail.broken", "payload": {"to": "nobody"}, "tags": ["demo"]}' >/dev/null || exit
  ok duetime_push $queue '{"kind": "report", "payload": {"seconds": 6}, "tags": ["demo"]}' >/dev/null || exit
  reminder=$(ok duetime_push $queue '{"kind": "mail.reminder", "payload": {}, "delay": "1h", "tags": ["demo"]}') || exit
  answer=$(ok duetime_cancel "$(jq -r .id <<<"$reminder")") || exit
  echo "reminder $(jq -r .outcome <<<"$answer")"
  answer=$(duetime_push $queue '{"payload": 1, "delay": "soon"}') || refused "$answer"
}

handle() {
  local kind
  kind=$(jq -r .kind <<<"$1")
  echo "$kind, attempt $(jq -r .attempt <<<"$1"): $(jq -c .payload <<<"$1")" >&2
  case $kind in
    mail.broken) echo 'there is no such address'; return 65 ;;
    # Longer than the lease, which is extended meanwhile.
    report) sleep "$(jq -r .payload.seconds <<<"$1")" ;;
  esac
  jq -c '{done: .kind}' <<<"$1"
}

lock() {
  local owner=demo-$$ other=other-$$ held fence answer next
  held=$(ok duetime_lock demo-shell "{\"owner\": \"$owner\", \"ttl\": \"10s\", \"wait\": \"5s\"}") || exit
  fence=$(jq -r .fence <<<"$held")
  answer=$(ok duetime_lock demo-shell "{\"owner\": \"$owner\", \"ttl\": \"10s\", \"fence\": $fence}") || exit
  echo "renewed $(jq --argjson fence "$fence" '.fence == $fence' <<<"$answer")"
  answer=$(duetime_lock demo-shell "{\"owner\": \"$other\"}") || refused "$answer"
  ok duetime_unlock demo-shell "$owner" "$fence" >/dev/null || exit
  # Store the fence with what you write under a lock, so that a late holder can be refused.
  answer=$(ok duetime_lock demo-shell "{\"owner\": \"$other\"}") || exit
  next=$(jq -r .fence <<<"$answer")
  echo "fence grows $( ((next > fence)) && echo true)"
  ok duetime_unlock demo-shell "$other" "$next" >/dev/null || exit
}

case ${1:-} in
  push) push ;;
  work) duetime_work $queue 5 handle && echo stopped ;;
  lock) lock ;;
  *) echo 'usage: demo.sh push | work | lock' >&2; exit 1 ;;
esac
