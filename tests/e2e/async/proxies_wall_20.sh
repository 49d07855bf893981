# Sums repeat to the bit, 20 times: see proxies_wall.sh.
# deadline: 900
# only: all
set -eu
ROUNDS=20 sh tests/e2e/async/proxies_wall.sh
