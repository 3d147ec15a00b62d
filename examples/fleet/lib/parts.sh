# The parts of the fleet: what each is given, and how it is started.
# shellcheck shell=bash

REGIONS=(eu us)
SERVERS=(eu-1 eu-2 us-1 us-2)

# The program; so that the lines below are those that one would type.
tidegate() {
    "${WITH:-$BIN}" "$@"
}

# A secret: 64 hexadecimal digits.
secret() {
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

# Addresses and secrets of a new fleet. Those that belong to a region or a server are in a list.
choose() {
    local name
    TAKEN=()
    declare -gA REDIS BALANCER BALANCER_ADMIN WAY_TO_DATABASE LISTEN ADMIN VERSION
    for name in "${REGIONS[@]}"; do
        free_address "REDIS[$name]"
        free_address "BALANCER[$name]"
        free_address "BALANCER_ADMIN[$name]"
        free_address "WAY_TO_DATABASE[$name]"
    done
    for name in "${SERVERS[@]}"; do
        free_address "LISTEN[$name]"
        free_address "ADMIN[$name]"
    done
    free_address DATABASE
    ROOT_KEY=$(secret)
    FLEET_SECRET=$(secret)
    REDIS_PASSWORD=$(secret)
    DATABASE_PASSWORD=$(secret)
    MIGRATE_PASSWORD=$(secret)
}

# What `status` and `down` have to know. For this user alone.
remember() {
    declare -p BIN REDIS BALANCER BALANCER_ADMIN WAY_TO_DATABASE LISTEN ADMIN DATABASE ROOT_KEY \
        FLEET_SECRET REDIS_PASSWORD DATABASE_PASSWORD MIGRATE_PASSWORD |
        sed 's/^declare -\([a-zA-Z-]*\)/declare -g\1/; s/^declare -g-/declare -g/' > "$DIR/state"
}

# A file of this directory with everything filled in, for a server, a region or neither.
# fill FILE [SERVER|REGION]
fill() {
    local text region=${2:-} name
    region=${region%-*}
    text=$(cat "$HERE/$1")
    if [[ -n $region ]]; then
        text=${text//<REGION>/$region}
        text=${text//<REDIS>/${REDIS[$region]}}
        text=${text//<WAY_TO_DATABASE>/${WAY_TO_DATABASE[$region]}}
        text=${text//<BALANCER>/${BALANCER[$region]}}
        text=${text//<BALANCER_ADMIN>/${BALANCER_ADMIN[$region]}}
        text=${text//<SERVER_1>/${LISTEN[$region-1]}}
        text=${text//<SERVER_2>/${LISTEN[$region-2]}}
        text=${text//<LISTEN>/${LISTEN[${2}]-}}
        text=${text//<ADMIN>/${ADMIN[${2}]-}}
    fi
    text=${text//<URL_EU>/$(url eu)}
    text=${text//<URL_US>/$(url us)}
    for name in DATABASE ROOT_KEY FLEET_SECRET REDIS_PASSWORD DATABASE_PASSWORD MIGRATE_PASSWORD; do
        text=${text//<$name>/${!name}}
    done
    echo "$text"
}

# A Redis for each region, in a directory of its own.
start_redis() {
    local home=$DIR/redis-$1
    mkdir -p "$home"
    fill redis.conf "$1" > "$home/redis.conf"
    fill users.acl "$1" > "$home/users.acl"
    (
        cd "$home" || exit
        start "redis-$1" redis-server redis.conf --bind 127.0.0.1 --port "${REDIS[$1]##*:}"
    )
    eventually "$PATIENCE_S" listens "${REDIS[$1]}" || fail "Redis of $1 does not start" "redis-$1"
}

# One database for all. Small, and private to this user.
start_database() {
    local home=$DIR/mariadb
    local args=(--no-defaults --datadir="$home/data")
    [[ $(id -u) != 0 ]] || args+=(--user=root)
    mkdir -p "$home"
    mariadb-install-db "${args[@]}" --auth-root-authentication-method=normal --skip-test-db \
        --innodb-log-file-size=8M > "$DIR/mariadb.log" 2>&1 ||
        fail "the database cannot be made" mariadb
    start mariadb mariadbd "${args[@]}" --socket="$home/s" --pid-file="$home/pid" \
        --tmpdir="$home" --bind-address=127.0.0.1 --port="${DATABASE##*:}" --skip-name-resolve \
        --innodb-buffer-pool-size=32M --innodb-log-file-size=8M
    eventually "$PATIENCE_S" sql -e 'SELECT 1' || fail "the database does not start" mariadb
}

# Says something to the database as its owner.
sql() {
    mariadb --no-defaults --socket="$DIR/mariadb/s" --user=root "$@"
}

# Tables and rights. `migrate` is also the first step of an upgrade.
make_tables() {
    fill users.sql | sql || fail "the users of the database cannot be made"
    migrate > "$DIR/migrate.log" 2>&1 || fail "the tables cannot be made" migrate
    sql tidegate < "$HERE/rights.sql" || fail "rights cannot be given"
}

migrate() {
    (
        export_all migrate.env
        tidegate migrate
    )
}

# Gives what a file says to the programs that are started from here.
# export_all FILE [SERVER]
export_all() {
    local line
    while IFS= read -r line; do export "${line?}"; done < <(fill "$@")
}

# Starts a server as its unit would, with the program that WITH names. It is not waited for.
start_server() {
    local command region=${1%-*}
    command=$(sed -n 's|^ExecStart=/usr/bin/tidegate ||p' "$HERE/tidegate.conf")
    command=${command/\/etc\/tidegate/"$DIR/$1"}
    # An older program may know no configuration file: it is told the same.
    grep -q -- --config <<< "$("${WITH:-$BIN}" serve --help)" ||
        command="serve --listen ${LISTEN[$1]} --admin-listen ${ADMIN[$1]} --region $region"
    [[ $command == *--config* ]] || command+=" --retire-for 2s"
    mkdir -p "$DIR/$1"
    fill server.toml "$1" > "$DIR/$1/server.toml"
    (
        export_all server.env "$1"
        # shellcheck disable=SC2086 # words are what a unit makes of it, too
        TIDEGATE_DATA=$DIR/$1 start "$1" "${WITH:-$BIN}" $command
    )
}

is_ready() {
    tidegate health --url "http://${LISTEN[$1]}"
}

await_server() {
    eventually "$PATIENCE_S" is_ready "$1" || fail "$1 does not get ready" "$1"
}

start_balancer() {
    fill haproxy.cfg "$1" > "$DIR/haproxy-$1.cfg"
    fill network.cfg "$1" > "$DIR/network-$1.cfg"
    start "haproxy-$1" haproxy -db -f "$DIR/haproxy-$1.cfg" -f "$DIR/network-$1.cfg"
    eventually "$PATIENCE_S" listens "${BALANCER[$1]}" ||
        fail "the load balancer of $1 does not start" "haproxy-$1"
}

# Says a line to the load balancer of a region, and prints what it replies.
# balancer REGION LINE
balancer() {
    local address=${BALANCER_ADMIN[$1]}
    exec 3<> "/dev/tcp/${address%:*}/${address##*:}" || return 1
    printf '%s\n' "$2" >&3
    timeout "$PATIENCE_S" cat <&3
    exec 3>&-
}

# Whether the load balancer of a server's region sends callers to it.
takes_callers() {
    local region=${1%-*}
    balancer "$region" "show stat" | grep -q "^tidegate,server-${1#*-},.*,UP,"
}

# Whether no call of its load balancer is at a server: the fifth column.
is_unused() {
    [[ $(balancer "${1%-*}" "show stat" | grep "^tidegate,server-${1#*-}," | cut -d , -f 5) == 0 ]]
}

# Everything, in the order in which one needs the other.
start_all() {
    local name
    for name in "${REGIONS[@]}"; do start_redis "$name"; done
    start_database
    make_tables
    for name in "${REGIONS[@]}"; do start_balancer "$name"; done
    for name in "${SERVERS[@]}"; do start_server "$name"; done
    for name in "${SERVERS[@]}"; do await_server "$name"; done
    for name in "${SERVERS[@]}"; do
        eventually "$PATIENCE_S" takes_callers "$name" ||
            fail "the load balancer does not find $name" "haproxy-${name%-*}"
    done
}

# Everything, the other way round. Servers are not waited for one by one: they retire for a while,
# and a second signal says that nobody is there to notice.
stop_all() {
    local name
    for name in "${SERVERS[@]}"; do signal TERM "$name"; done
    sleep 0.2
    for name in "${SERVERS[@]}"; do stop "$name"; done
    for name in "${REGIONS[@]}"; do
        stop "haproxy-$name"
        stop "redis-$name"
    done
    stop mariadb
}
