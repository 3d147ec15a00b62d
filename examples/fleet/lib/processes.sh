# Processes: each is started once, known by its number and the moment it began, and ended by them.
# shellcheck shell=bash

# The moment a process began, by the kernel's clock; nothing if it is gone. A number is given to
# another process some day: number and moment together are not.
began() {
    local line state
    line=$(cat "/proc/$1/stat" 2> /dev/null) || return 0
    # The name of the program may hold blanks; after its bracket come the state and the rest.
    line=${line##*) }
    state=${line%% *}
    [[ $state == Z ]] || cut -d ' ' -f 20 <<< "$line"
}

# Starts a program in the background, in a session of its own: Ctrl-C is for the script.
# start NAME COMMAND…
start() {
    local name=$1
    shift
    setsid "$@" < /dev/null >> "$DIR/$name.log" 2>&1 &
    local pid=$!
    # The shell is not to say how it ended: drills end it in every way.
    disown "$pid"
    echo "$pid $(began "$pid")" > "$DIR/$name.pid"
}

# The number of a process of ours, if it lives.
pid_of() {
    local pid moment
    [[ -s $DIR/$1.pid ]] || return 1
    read -r pid moment < "$DIR/$1.pid"
    [[ -n ${moment:-} && $(began "$pid") == "$moment" ]] || return 1
    echo "$pid"
}

is_gone() {
    ! pid_of "$1" > /dev/null
}

# Sends a signal to a process of ours; nothing happens if it is gone.
signal() {
    local pid
    pid=$(pid_of "$2") || return 0
    kill "-$1" "$pid" 2> /dev/null || true
}

# Ends a process: a signal, patience, and then without asking.
# stop NAME [SIGNAL]
stop() {
    signal "${2:-TERM}" "$1"
    if ! eventually "$PATIENCE_S" is_gone "$1"; then
        echo "$1 does not end; it is killed"
        signal KILL "$1"
        eventually "$PATIENCE_S" is_gone "$1" || echo "$1 cannot be ended"
    fi
    rm -f "$DIR/$1.pid"
}

# Milliseconds since some moment.
now_ms() {
    echo "${EPOCHREALTIME/[.,]/}" | sed 's/...$//'
}

# Tries a command until it succeeds, so many seconds at most.
# eventually SECONDS COMMAND…
eventually() {
    local end=$((SECONDS + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

# Whether somebody listens.
listens() {
    (exec 3<> "/dev/tcp/${1%:*}/${1##*:}") 2> /dev/null
}

# An address of this machine where nobody listens, into the variable that is named. Below the
# ports that the system gives to clients.
free_address() {
    local -n into=$1
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        into=127.0.0.1:$((20000 + (RANDOM * 4 + RANDOM % 4) % 12000))
        if [[ " ${TAKEN[*]-} " != *" $into "* ]] && ! listens "$into"; then
            TAKEN+=("$into")
            return
        fi
    done
    fail "no free port was found"
}
