#!/usr/bin/env bash
# Starts the project's own Kafka, loads a week of earthquakes into a topic, keeps the strong ones exactly once, and shows some.
# Run it again: nothing is doubled. Everything is kept in .wattle/ and target/. Needs a Rust toolchain, a C and C++ compiler and make,
# java 17+ and mvn.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n> %s\n' "$*" >&2; }
kafka=.wattle/kafka
free_port() {
  for port in $(seq 19092 19192); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
  echo "no free port between 19092 and 19192" >&2
  exit 1
}

say cargo build --release -p wattle-cli
cargo build --release -p wattle-cli
wattle=${CARGO_TARGET_DIR:-target}/release/wattle

mkdir -p "$kafka"
port=$(cat "$kafka/port" 2>/dev/null || free_port)
say scripts/kafka start "$kafka" "$port"
scripts/kafka start "$kafka" "$port"
# The records are from 2018: with the default retention of a week the broker would delete them at once.
scripts/kafka topics "$kafka" quakes:3:retention.ms=-1 strong-quakes:3:retention.ms=-1
export WATTLE_BROKERS=127.0.0.1:$port WATTLE_LOG=warn

say "wattle run examples/load.yaml --drain"
"$wattle" run examples/load.yaml --drain

say "wattle run examples/strong.yaml --drain"
"$wattle" run examples/strong.yaml --drain

say "wattle tail strong-quakes --from-beginning --count 3"
"$wattle" tail strong-quakes --from-beginning --count 3

cat >&2 <<E2

Kafka goes on at $WATTLE_BROKERS. To look further:
  export WATTLE_BROKERS=$WATTLE_BROKERS
  target/release/wattle tail strong-quakes --from-beginning
To stop it: scripts/kafka stop $kafka      To forget everything: then rm -r .wattle
E2
