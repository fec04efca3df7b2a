# A small client of Duetime's HTTP API for bash, with curl and jq. Copy this file, and source it.
#
# The environment has the server's address (DUETIME_SERVER) and, if it requires one, the token (DUETIME_TOKEN).
#
# Every function prints the answer. A refusal ends with 22, and prints the problem document, whose `code` is
# stable. Without an answer the status is 75, and the document has the code `unreachable`.

DUETIME_TRIES=${DUETIME_TRIES:-6}

# duetime_call METHOD PATH [BODY]: calls the API, and repeats the call for some seconds while the server is unavailable. Every
# call is safe to repeat.
duetime_call() {
  local try=1 status answer
  while :; do
    status=0
    answer=$(duetime_once "$@") || status=$?
    # 22: refused; a retry does not help. 75: the server is unavailable.
    if ((status == 0 || status == 22 || try == DUETIME_TRIES)); then
      printf '%s\n' "$answer"
      return $status
    fi
    sleep "$(printf '%d.%d' $((2 ** try / 10)) $((2 ** try % 10)))"
    try=$((try + 1))
  done
}

duetime_once() {
  local server=${DUETIME_SERVER:-http://127.0.0.1:7300} reply code=0 status
  local arguments=(--silent --max-time 60 --write-out '\n%{http_code}' --request "$1")
  if [[ -n ${3:-} ]]; then
    arguments+=(--header 'content-type: application/json' --data-binary @-)
  fi
  # The token is passed in a file: anyone on the machine can read a command line.
  reply=$(printf '%s' "${3:-}" | curl "${arguments[@]}" \
    --config <(printf '%s' "${DUETIME_TOKEN:+header = \"authorization: Bearer $DUETIME_TOKEN\"}") "${server%/}$2") || code=$?
  status=${reply##*$'\n'}
  if ((code != 0)); then
    jq -cn --arg detail "${server%/}: curl ended with $code" '{status: 0, code: "unreachable", detail: $detail}'
    return 75
  fi
  reply=${reply%$'\n'*}
  if ((status < 400)); then
    printf '%s' "$reply"
    return 0
  fi
  # Without a document it is not from the server: a proxy's page, perhaps.
  jq -ce 'select(.code)' <<<"$reply" 2>/dev/null ||
    jq -cn --argjson status "$status" --arg detail "${reply:0:200}" '{$status, code: "http_\($status)", $detail}'
  [[ $status =~ ^(408|429|502|503|504)$ ]] && return 75
  return 22
}

# duetime_push QUEUE JOB: when this returns, the job is recorded. Its origin identifies the push, so a repeat makes no
# second job.
duetime_push() {
  local job
  job=$(jq -c --arg origin "$(duetime_id)" '{$origin} + .' <<<"$2")
  duetime_call POST "/v1/queues/$1/jobs" "$job"
}

duetime_id() {
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

duetime_cancel() {
  duetime_call POST "/v1/jobs/$1/cancel"
}

# duetime_reserve QUEUE LEASE WAIT: leases a due job, or waits for one. A repeat gets the same job.
duetime_reserve() {
  local request
  request=$(jq -cn --arg lease "$2" --arg wait "$3" --arg id "$(duetime_id)" --arg worker "$(hostname):$$" '{$lease, $wait, $worker, request_id: $id}')
  duetime_call POST "/v1/queues/$1/reserve" "$request"
}

# duetime_settle RECEIPT complete|fail|release|extend [BODY]
duetime_settle() {
  duetime_call POST "/v1/leases/$1/$2" "${3:-}"
}

# duetime_lock NAME BODY: acquires for the owner in the body, or renews if the body has a fence.
duetime_lock() {
  duetime_call PUT "/v1/locks/$1" "$2"
}

# duetime_unlock NAME OWNER FENCE
duetime_unlock() {
  duetime_call DELETE "/v1/locks/$1?$(jq -rn --arg owner "$2" '"owner=\($owner | @uri)"')&fence=$3"
}

# duetime_work QUEUE SECONDS HANDLER: runs jobs one after the other until SIGTERM or SIGINT. HANDLER is called with the job. Its
# output is the result, in JSON, or the message if it fails; with 65 it fails for good. The lease, of this many seconds,
# is extended while it runs, and the handler is ended when the lease is lost.
duetime_work() {
  local answer job
  duetime_stopped=
  trap 'duetime_stopped=1' TERM INT
  while [[ -z $duetime_stopped ]]; do
    if answer=$(duetime_reserve "$1" "$2s" 5s); then
      while IFS= read -r job; do duetime_run "$job" "$2" "$3"; done < <(jq -c '.leases[]' <<<"$answer")
    elif (($? == 75)); then
      jq -r '"\(.code): \(.detail)"' <<<"$answer"
    else
      jq -r '"\(.code): \(.detail)"' <<<"$answer" >&2
      return 22
    fi
  done
  return 0
}

duetime_run() {
  local job=$1 receipt out handler keeper status=0 read answer
  receipt=$(jq -r .receipt <<<"$job")
  # JSON that some decoders refuse comes in base64, as do bytes that are not JSON.
  if ! read=$(jq -c 'if has("payload") then . else .payload = (.payload_base64 | @base64d | fromjson) end' <<<"$job" 2>&1); then
    answer=$(duetime_settle "$receipt" fail "$(jq -Rsc '{message: "the payload cannot be read: \(.)", final: true}' <<<"$read")") ||
      jq -r '"\(.code): \(.detail)"' <<<"$answer"
    return 0
  fi
  job=$read
  out=$(mktemp)
  # Signals go to the worker, which lets the handler finish.
  (trap '' TERM INT; "$3" "$job" >"$out") &
  handler=$!
  (trap '' INT; duetime_keep "$receipt" "$2" "$handler") &
  keeper=$!
  # A signal ends a wait, too.
  while kill -0 "$handler" 2>/dev/null; do wait "$handler" || true; done
  wait "$handler" || status=$?
  kill "$keeper" 2>/dev/null
  wait "$keeper" 2>/dev/null || true
  local verb=complete body
  if ((status == 0)); then
    body=$(jq -c '{result: .}' "$out")
  else
    verb=fail
    body=$(jq -Rsc --argjson status "$status" '{message: rtrimstr("\n"), final: ($status == 65)}' "$out")
  fi
  # `lease_lost`: another worker has the job, or the answer to an earlier settle was lost.
  if ! answer=$(duetime_settle "$receipt" $verb "$body"); then
    jq -r '"\(.code): \(.detail)"' <<<"$answer"
    # A result that the server refuses fails the job, so that it does not run again and again.
    if jq -e '.status == 400 or .status == 413' <<<"$answer" >/dev/null; then
      duetime_settle "$receipt" fail "$(jq -c '{message: "the outcome was refused: \(.detail)", final: true}' <<<"$answer")" >/dev/null || true
    fi
  fi
  rm -f "$out"
}

duetime_keep() {
  local answer nap=
  # Its sleep ends with it.
  trap 'kill "$nap" 2>/dev/null; exit' TERM
  while :; do
    sleep "$(($2 / 3)).5" &
    nap=$!
    wait "$nap"
    answer=$(duetime_settle "$1" extend) || true
    if jq -e '.cancel_requested or .code == "lease_lost"' <<<"$answer" >/dev/null; then
      kill -KILL "$3"
      return
    fi
  done
}
