# What a drill does and sees: loads, looks, and checks that are counted.
# shellcheck shell=bash

PASSED=0
FAILED=0
SKIPPED=0

# What is being done now, for the person who watches.
say() {
    echo "  $*"
}

# A check that is counted: what must hold, what was seen, and whether it does.
# must "what must hold: what was seen" CONDITION…, as for `test`
must() {
    local what=$1
    shift
    if [ "$@" ]; then
        PASSED=$((PASSED + 1))
        echo "  ok      $what"
    else
        FAILED=$((FAILED + 1))
        echo "  FAILED  $what"
    fi
}

# The same for what takes a moment: it must hold within so many seconds.
# must_soon SECONDS "what must hold" COMMAND…
must_soon() {
    local seconds=$1 what=$2 from
    shift 2
    from=$(now_ms)
    if eventually "$seconds" "$@"; then
        local took=$(($(now_ms) - from))
        must "$what: after $((took / 1000)).$(printf '%03d' $((took % 1000))) s" -n yes
    else
        must "$what: not within $seconds s" -z no
    fi
}

# The window of all limits, chosen once: what is spent in one is not in another.
WINDOW=

# A window that does not end within a quarter of an hour from then, so not while drills run. All of
# them start at 1970: of several lengths one has time left, but for minutes in years.
# window UNIX_SECONDS
window() {
    local length
    for length in 24 17 23; do
        if (($1 % (length * 3600) <= length * 3600 - 900)); then
            echo "${length}h"
            return
        fi
    done
    return 1
}

# The first number that stands behind a name in a line of JSON.
# number NAME JSON
number() {
    [[ $2 =~ \"$1\":(-?[0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# Where a server or, by the name of a region, a load balancer is.
url() {
    echo "http://${LISTEN[$1]-${BALANCER[$1]-}}"
}

# Starts a load on one subject (user-0 of a namespace), through a server or a load balancer. It
# goes on until `landed`.
# load NAME WHERE NAMESPACE LIMIT [OPTION…]
load() {
    local name=$1 where=$2 namespace=$3 limit=$4
    shift 4
    # Not the function: the signal that ends it is for the program.
    "$BIN" bench --url "$(url "$where")" --namespace "$namespace" --identifiers 1 \
        --limit "$limit" --window "$WINDOW" --warm-up 0s --for "${LOAD_S}s" --output json "$@" \
        > "$DIR/load-$name.json" 2> "$DIR/load-$name.log" &
    LOADS[$name]=$!
}

# Ends a load, and leaves what it saw in ADMITTED, DENIED, DEGRADED, CALLS, LOST (calls without an
# answer) and P99_MS.
landed() {
    local json kinds kind
    kill -TERM "${LOADS[$1]}" 2> /dev/null || true
    wait "${LOADS[$1]}" || true
    unset "LOADS[$1]"
    json=$(cat "$DIR/load-$1.json")
    [[ -n $json ]] || cat "$DIR/load-$1.log"
    CALLS=$(number sent "$json") ADMITTED=$(number admitted "$json")
    DENIED=$(number denied "$json") DEGRADED=$(number degraded "$json")
    P99_MS=$(number p99 "$json")
    LOST=0
    kinds=${json#*\"errors\":\{}
    kinds=${kinds%%\}*}
    LOST_KINDS=
    for kind in ${kinds//,/ }; do
        ((${kind#*:} == 0)) || LOST_KINDS+=" ${kind//\"/}"
        LOST=$((LOST + ${kind#*:}))
    done
}

# What is known of the subject of a load at a server.
look() {
    tidegate inspect --url "$(url "$1")" --namespace "$2" --identifier user-0 \
        --window "$WINDOW" --output json
}

# What the Redis of a server's region has recorded of it.
recorded() {
    [[ $(look "$1" "$2") =~ \"region\":\{\"current\":\{\"sequence\":[0-9]+,\"sum\":([0-9]+) ]] &&
        echo "${BASH_REMATCH[1]}"
}

# What other regions have used of it, as a server knows.
foreign() {
    number foreign "$(look "$1" "$2")"
}

# Whether its region has recorded so much, or more.
has_spent() {
    (($(recorded "$1" "$2") >= $3))
}

has_recorded() {
    [[ $(recorded "$1" "$2") == "$3" ]]
}

# Whether a server has recorded all that it admitted.
has_settled() {
    [[ $(look "$1" "$2") == *'"unreplayed":false'* ]]
}

# Spends one of a limit at a server, and prints the answer as JSON.
# spend SERVER NAMESPACE IDENTIFIER LIMIT [OPTION…]
spend() {
    tidegate limit --url "$(url "$1")" --namespace "$2" --identifier "$3" --limit "$4" \
        --window "$WINDOW" --output json "${@:5}"
}

# Whether a server would decide by this limit.
goes_by() {
    local said
    said=$(tidegate explain --url "$(url "$1")" --namespace "$2" --identifier "$3" --limit 10 \
        --window "$WINDOW" --output json)
    [[ $(number limit "$said") == "$4" ]]
}

all_go_by() {
    local server
    for server in "${SERVERS[@]}"; do
        goes_by "$server" "$@" || return 1
    done
}

# Whether a server denies one more. It spends one if not: only a request takes what other regions
# have used into the table.
denies() {
    spend "$1" "$2" user-0 "$3" | grep -q '"success":false'
}

# A subject that two servers of a region share: five spent at one are missing at the other.
# must_share NAMESPACE SERVER OTHER
must_share() {
    local each
    for each in 1 2 3 4 5; do spend "$2" "$1" "of-$2" 10 > "$DIR/spent.json"; done
    must_soon "$PATIENCE_S" "5 of 10 spent at $2, and $3 has 5 left" has_left "$3" "$1" "of-$2" 5
}

# Whether a server has so many of 10 left. It is asked for nothing, so it can be asked again: an
# answer that Redis was too late for knows of this server alone.
has_left() {
    [[ $(number remaining "$(spend "$1" "$2" "$3" 10 --cost 0)") == "$4" ]]
}

# Replaces servers, one of each region at a time, as one would: SIGTERM, wait, start, wait.
# replace SIGNAL SERVER…
replace() {
    local signal=$1 name
    shift
    for name in "$@"; do signal "$signal" "$name"; done
    for name in "$@"; do eventually "$PATIENCE_S" is_gone "$name" || say "$name does not end"; done
    for name in "$@"; do start_server "$name"; done
    for name in "$@"; do await_server "$name"; done
    for name in "$@"; do
        balancer "${name%-*}" "set server tidegate/server-${name#*-} state ready" > /dev/null
    done
    for name in "$@"; do eventually "$PATIENCE_S" takes_callers "$name" || say "$name is not back"; done
}
