# Replay to the bit, 20 times: see peers_wall.sh.
# deadline: 900
# only: all
set -eu
ROUNDS=20 sh tests/e2e/async/peers_wall.sh
