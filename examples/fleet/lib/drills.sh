# The drills. Each says what must hold, does something to the fleet, and checks it.
# shellcheck shell=bash

DRILLS=(versions limits overrides kill rolling cut control)

drill_limits() {
    say "a limit of 2,000 in a burst at both servers of eu at once, 8 connections each"
    must_share limits eu-1 eu-2
    load one eu-1 burst 2000 --rate max --connections 8
    load two eu-2 burst 2000 --rate max --connections 8
    # As long as it takes: how fast this machine is, is not the question.
    must_soon "$PATIENCE_S" "it is spent, and recorded in Redis" has_spent eu-1 burst 2000
    sleep 1
    local admitted=0 degraded=0 name
    for name in one two; do
        landed "$name"
        admitted=$((admitted + ADMITTED)) degraded=$((degraded + DEGRADED))
        must "every call at $name is answered: $LOST of $CALLS are not$LOST_KINDS" "$LOST" = 0
    done
    must "the limit can be spent: $admitted of 2000 were admitted" "$admitted" -ge 2000
    # An answer that Redis was too late for is admitted on what is known, and says `degraded`.
    must "and not more than an eighth above it ($degraded answers were degraded): $admitted" \
        "$admitted" -le $((2250 + degraded))
    must_soon "$PATIENCE_S" "us denies what was spent in eu" denies us-1 burst 2000
    must_soon "$PATIENCE_S" "and so does the other server of us" denies us-2 burst 2000
}

drill_overrides() {
    say "an override that is set on one server and deleted on another"
    spend eu-1 overrides vip-7 10 > /dev/null
    must_soon "$PATIENCE_S" "all four go by the caller's limit of 10" all_go_by overrides vip-7 10
    tidegate override set --url "$(url eu-1)" --namespace overrides --identifier 'vip-*' \
        --limit 100 --window "$WINDOW" > /dev/null
    must_soon "$PATIENCE_S" "set at eu-1, all four go by 100 (promised: 2 s)" \
        all_go_by overrides vip-7 100
    tidegate override delete --url "$(url us-2)" --namespace overrides --identifier 'vip-*' \
        > /dev/null
    must_soon "$PATIENCE_S" "deleted at us-2, all four go by 10 again (promised: 2 s)" \
        all_go_by overrides vip-7 10
}

# What a kill can cost: calls that were at that server at that moment, at most one for each
# connection of the load; and what the server had admitted and not told Redis yet, at most a
# sixteenth of the limit (its credit, with two servers).
drill_kill() {
    local limit=3200 connections=8
    say "kill -9 of eu-1 under load, and a start"
    load calls eu kill "$limit" --rate 200 --connections "$connections"
    sleep 2
    replace KILL eu-1
    sleep 1
    landed calls
    must "at most the $connections calls in flight are lost: $LOST of $CALLS are$LOST_KINDS" \
        "$LOST" -le "$connections"
    local used
    must_soon "$PATIENCE_S" "the other server has recorded all it admitted" has_settled eu-2 kill
    used=$(recorded eu-2 kill)
    must "nothing is counted twice: $used recorded, $ADMITTED admitted, $LOST lost" \
        "$used" -le $((ADMITTED + LOST))
    must "at most $((limit / 16)) are forgotten: $((ADMITTED - used))" \
        $((ADMITTED - used)) -le $((limit / 16))
    must_soon "$PATIENCE_S" "the new process counts what was used" knows eu-1 kill "$used"
}

# Whether a server counts so much for who asks it. A view is read again when somebody asks and it is
# 5 s old, not before: so it is asked, for nothing.
knows() {
    spend "$1" "$2" user-0 3200 --cost 0 > /dev/null
    (($(number counts "$(look "$1" "$2")") >= $3))
}

drill_rolling() {
    say "all four are restarted under load, one of each region at a time, with SIGTERM"
    roll rolling TERM 100
}

# Restarts everything under load and checks that nothing was lost.
# roll NAMESPACE SIGNAL RATE
roll() {
    local namespace=$1 signal=$2 rate=$3 region
    for region in "${REGIONS[@]}"; do
        load "$region" "$region" "$namespace" 1000000 --rate "$rate" --connections 8
    done
    sleep 1
    replace "$signal" eu-1 us-1
    replace "$signal" eu-2 us-2
    sleep 1
    conserved "$namespace"
}

# Ends the loads of both regions: no call failed, and what callers were told is what is recorded.
conserved() {
    local region
    declare -A admitted
    for region in "${REGIONS[@]}"; do
        landed "$region"
        admitted[$region]=$ADMITTED
        must "every call through the balancer of $region is answered: $LOST of $CALLS are not$LOST_KINDS" \
            "$LOST" = 0
    done
    for region in "${REGIONS[@]}"; do
        must_soon "$PATIENCE_S" \
            "${admitted[$region]} were admitted in $region, and exactly that is recorded in Redis" \
            has_recorded "$region-1" "$1" "${admitted[$region]}"
    done
}

# Replaces servers that the load balancers have stopped sending to: what an older program does with
# its connections when it is told to end does not matter then.
hand_over() {
    local name
    for name in "$@"; do
        balancer "${name%-*}" "set server tidegate/server-${name#*-} state drain" > /dev/null
    done
    for name in "$@"; do eventually "$PATIENCE_S" is_unused "$name" || say "$name is still used"; done
    replace TERM "$@"
}

# The fleet was started on the previous program; see `start_drills`.
drill_versions() {
    local new=$BIN
    if [[ -z $PREVIOUS ]]; then
        skip "no previous program (--previous PATH)"
        return
    fi
    say "from $(version "$PREVIOUS") to $(version "$new"), under load"
    WITH=$PREVIOUS
    spend eu-1 versions vip-7 10 > /dev/null
    tidegate override set --url "$(url eu-1)" --namespace versions --identifier 'vip-*' \
        --limit 100 --window "$WINDOW" > /dev/null
    WITH=$new
    local region
    for region in "${REGIONS[@]}"; do
        load "$region" "$region" versions 1000000 --rate 100 --connections 8
    done
    migrate > "$DIR/migrate.log" 2>&1 && must "the new program brings the tables up to date" -n ok ||
        must "the new program cannot migrate: $(tail -n 1 "$DIR/migrate.log")" -z failed
    sql tidegate < "$HERE/rights.sql"
    say "eu-1 and us-1 get the new program"
    hand_over eu-1 us-1
    must_share mixed eu-1 eu-2
    must_share mixed us-2 us-1
    must_soon "$PATIENCE_S" "an override of before acts on old and new" all_go_by versions vip-7 100
    tidegate override set --url "$(url us-1)" --namespace versions --identifier 'vip-*' \
        --limit 200 --window "$WINDOW" > /dev/null
    must_soon "$PATIENCE_S" "one that the new program sets, too" all_go_by versions vip-7 200
    say "eu-2 and us-2 get it"
    hand_over eu-2 us-2
    say "eu-1 goes back to the old one"
    WITH=$PREVIOUS hand_over eu-1
    must_share back eu-1 eu-2
    must_share back eu-2 eu-1
    say "and gets the new one again"
    hand_over eu-1
    conserved versions
}

drill_cut() {
    cut_database
    cut_redis
}

cut_database() {
    local limit=4000 region
    declare -A used
    say "eu is cut off from the database under load"
    for region in "${REGIONS[@]}"; do
        load "$region" "$region" cut "$limit" --rate 100 --connections 8
    done
    sleep 1
    balancer eu "set server database/primary state maint" > /dev/null
    balancer eu "shutdown sessions server database/primary" > /dev/null
    must_soon "$PATIENCE_S" "answers in eu say that what they know of us is 3 s old" is_aged eu-2 cut
    for region in "${REGIONS[@]}"; do
        landed "$region"
        used[$region]=$ADMITTED
        must "every call in $region is answered: $LOST of $CALLS are not$LOST_KINDS" "$LOST" = 0
        must "and none waits for the database: 99 of 100 within $P99_MS ms" "$P99_MS" -lt 2000
    done
    for region in "${REGIONS[@]}"; do
        must "eu and us take callers meanwhile: $region-1" "$(takes "$region-1")" = yes
    done
    for region in "${REGIONS[@]}"; do
        must_soon "$PATIENCE_S" "what $region used is recorded in its Redis" \
            has_recorded "$region-1" cut "${used[$region]}"
    done
    say "healed; eu used ${used[eu]}, us used ${used[us]}"
    balancer eu "set server database/primary state ready" > /dev/null
    # A region keeps to itself what cannot matter: 5 % of the limit, a share of it for each region.
    must_soon "$PATIENCE_S" "eu knows what us used, but for 5 % of the limit" \
        has_heard eu-1 cut "${used[us]}" $((limit / 20))
    must_soon "$PATIENCE_S" "us knows what eu used, but for 5 % of the limit" \
        has_heard us-1 cut "${used[eu]}" $((limit / 20))
    sleep 1
    must "it is counted once: eu knows of $(foreign eu-1 cut), us used ${used[us]}" \
        "$(foreign eu-1 cut)" -le "${used[us]}"
    must "and us knows of $(foreign us-1 cut), eu used ${used[eu]}" \
        "$(foreign us-1 cut)" -le "${used[eu]}"
}

is_aged() {
    (($(number ageMs "$(spend "$1" "$2" age 1000)") >= 3000))
}

has_heard() {
    (($(foreign "$1" "$2") + $4 >= $3))
}

takes() {
    if takes_callers "$1"; then echo yes; else echo no; fi
}

cut_redis() {
    say "Redis of eu is stopped under load"
    load eu eu redis 1000 --rate 100 --connections 8
    sleep 1
    stop redis-eu
    must_soon "$PATIENCE_S" "answers say that they are degraded" is_degraded eu-1 redis
    sleep 1
    must "readiness does not ask Redis: eu-1 takes callers" "$(takes eu-1)" = yes
    must "and eu-2" "$(takes eu-2)" = yes
    say "and started again, empty"
    start_redis eu
    sleep 1
    landed eu
    must "every call is answered: $LOST of $CALLS are not$LOST_KINDS" "$LOST" = 0
    must "some were degraded: $DEGRADED of $CALLS" "$DEGRADED" -gt 0
    must "and none waits long: 99 of 100 within $P99_MS ms" "$P99_MS" -lt 2000
    must_soon "$PATIENCE_S" "$ADMITTED were admitted, and Redis has recorded $ADMITTED again" \
        has_recorded eu-2 redis "$ADMITTED"
    must_soon "$PATIENCE_S" "answers are no longer degraded" is_well eu-1 redis
}

is_degraded() {
    spend "$1" "$2" degraded 1000 | grep -q '"degraded":true'
}

is_well() {
    spend "$1" "$2" degraded 1000 | grep -q '"degraded":false'
}

# Shows that the drills can fail: servers that are killed instead of retired have to be noticed.
drill_control() {
    say "the same rolling restart with kill -9; its checks have to fail"
    local said
    said=$(
        FAILED=0 PATIENCE_S=5
        roll control KILL max
        ((FAILED == 0)) || echo noticed
    )
    sed 's/^/    /' <<< "${said%noticed}"
    must "a rolling restart by kill -9 is noticed" "${said##*$'\n'}" = noticed
}

# The name and the commit of a program.
version() {
    "$1" --version | sed -n '1p; s/^commit: */(/p; 2q' | paste -s -d ' ' | sed 's/(.*/&)/'
}

# A drill that cannot be run is said, loudly, and is not one that passed.
skip() {
    SKIPPED=$((SKIPPED + 1))
    echo "  SKIPPED: $*"
}
