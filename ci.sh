#!/usr/bin/env bash
# Everything that is checked before a change lands, for people and for CI:
#
#   ./ci.sh [--long] [STAGE...]      without a stage: all, in this order
#
#   deps         install or name the Debian packages that tests use
#   gen          the committed assembly is what the generators make
#   lint         gofmt, go vet for several systems, staticcheck, module files
#   unit         go test ./...
#   race         the same with the race detector, and with one processor
#   purego       the builds without assembly, and every CPU level forced
#   cross        builds for other systems; tests under qemu-user
#   fuzz         each fuzz target for some seconds
#   integration  the built program against other programs
#   report       speed, printed and never judged
#
# --long runs whole matrices, loads and long fuzzing. XTSDISK_TESTDATA names
# the folder with outside vectors and images (../shared where that exists).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

STAGES=(deps gen lint unit race purego cross fuzz integration report)
# program:package, for what tests call
TOOLS=(cryptsetup:cryptsetup-bin qemu-aarch64-static:qemu-user-static xz:xz-utils
       fdisk:fdisk mke2fs:e2fsprogs xfs_repair:xfsprogs fsck.vfat:dosfstools python3:python3
       gcc:gcc script:bsdutils qemu-io:qemu-utils objdump:binutils nbdkit:nbdkit nbdcopy:libnbd-bin)

long=""
wanted=()
for arg in "$@"; do
  case $arg in
    --long) long=1 ;;
    -h|--help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) [[ " ${STAGES[*]} " == *" $arg "* ]] || { echo "ci.sh: no stage $arg; stages: ${STAGES[*]}" >&2; exit 2; }
       wanted+=("$arg") ;;
  esac
done
[[ ${#wanted[@]} -gt 0 ]] || wanted=("${STAGES[@]}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
: >"$work/skips"

if [[ -z ${XTSDISK_TESTDATA-} && -d ../shared ]]; then
  XTSDISK_TESTDATA=$(cd ../shared && pwd)
  export XTSDISK_TESTDATA
fi
export XTSDISK_LONG=$long
export PATH=$PATH:/usr/sbin:/sbin

missing_packages() {
  local pair
  for pair in "${TOOLS[@]}"; do
    command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
  done
}

stage_deps() {
  local missing answer=y sudo=""
  mapfile -t missing < <(missing_packages)
  if [[ ${#missing[@]} -gt 0 ]]; then
    if ! command -v apt-get >/dev/null; then
      echo "not a Debian system; tests that need these packages are skipped: ${missing[*]}"
      return
    fi
    if [[ $(id -u) != 0 ]]; then sudo=sudo; fi
    if [[ $(id -u) != 0 && ${CI-} != true ]]; then
      read -rp "install ${missing[*]} with apt-get? [y/N] " answer || answer=n
    fi
    if [[ $answer != [yY]* ]]; then
      echo "tests that need these packages are skipped: ${missing[*]}"
      return
    fi
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$work/apt.log" 2>&1 ||
      { tail -20 "$work/apt.log"; return 1; }
  fi
  go mod download
}

# What must not be skipped here: programs that are installed, levels that the
# kernel (not our own detection) says this CPU has, root, outside data.
require() {
  local pair list=()
  for pair in "${TOOLS[@]}"; do
    if command -v "${pair%%:*}" >/dev/null; then list+=("${pair%%:*}"); fi
  done
  has() { local f; for f in "$@"; do grep -qw -m1 "$f" /proc/cpuinfo 2>/dev/null || return 1; done; }
  local aes=(aes pclmulqdq avx) avx2=(avx2 vaes vpclmulqdq) avx512=(avx512f avx512bw avx512vl avx512dq bmi2)
  if has aes ssse3; then list+=(aesni4); fi
  if has aes ssse3 pclmulqdq; then list+=(aesni); fi
  if has "${aes[@]}"; then list+=(avx); fi
  if has "${aes[@]}" "${avx2[@]}"; then list+=(vaes-avx2); fi
  if has "${aes[@]}" "${avx2[@]}" "${avx512[@]}"; then list+=(vaes256 vaes512); fi
  if ldconfig -p 2>/dev/null | grep -q 'libcrypto\.so'; then list+=(libcrypto); fi
  if [[ $(id -u) == 0 ]]; then list+=(root); fi
  if [[ -n ${XTSDISK_TESTDATA-} ]]; then list+=(testdata); fi
  (IFS=,; echo "${list[*]}")
}

# go_test NAME ARGS... runs go test, shows what failed and one line for each
# package, and keeps the counts and the reasons of what was skipped.
go_test() {
  local name=$1 rc=0 log="$work/$1.log"
  shift
  go test -timeout 30m -v "$@" >"$log" 2>&1 || rc=$?
  if [[ $rc != 0 ]]; then
    grep -avE '^ *(=== |--- PASS|--- SKIP)' "$log" | tail -150 || true
  fi
  grep -aE '^(ok|FAIL|---? FAIL| +--- FAIL)' "$log" || true
  passed=$((passed + $(grep -acE '^ *--- PASS' "$log" || true)))
  failed=$((failed + $(grep -acE '^ *--- FAIL' "$log" || true)))
  skipped=$((skipped + $(grep -acE '^ *--- SKIP' "$log" || true)))
  # With -v a test's log lines follow its name: the last one before the skip is
  # the reason.
  awk -v name="$name" '/^=== (RUN|NAME|CONT) / { test = $3; next }
    /^ *[^ ]+\.go:[0-9]+: / { line = $0; sub(/^ *[^ ]+\.go:[0-9]+: /, "", line); said[test] = line }
    /^ *--- SKIP/ { why = said[$3]; if (!(why in count)) first[why] = $3; count[why]++ }
    END { for (why in count) print name ": " why ": " first[why] (count[why] > 1 ? " and " count[why] - 1 " more" : "") }' "$log" >>"$work/skips"
  return "$rc"
}

stage_gen() { go_test gen -run TestAssembly ./internal/rules; }

stage_lint() {
  local unformatted target
  unformatted=$(gofmt -l .)
  [[ -z $unformatted ]] || { echo "gofmt: $unformatted"; return 1; }
  go mod tidy -diff
  go mod verify
  go vet ./...
  go vet -tags purego ./...
  for target in linux/arm64 linux/386 darwin/arm64 windows/amd64 freebsd/amd64; do
    GOOS=${target%/*} GOARCH=${target#*/} go vet ./...
  done
  go tool -modfile=tools.mod staticcheck ./...
  if command -v shellcheck >/dev/null; then shellcheck ci.sh .ci/run; fi
}

stage_unit() {
  local packages
  mapfile -t packages < <(go list ./... | grep -v /integration)
  go_test unit "${packages[@]}"
}

# Replays of crashes are the same on one goroutine and on every processor.
REPLAYS='Crash|NeedsEveryFlush'

stage_race() {
  go_test race -race -short -skip "$REPLAYS" ./xts/... ./device/... ./luks/... ./internal/... ./cmd/...
  GOMAXPROCS=1 go_test one-processor -short -skip "$REPLAYS" ./xts/... ./device/... ./luks/...
}

stage_purego() {
  go_test purego -tags purego -short -skip "$REPLAYS" ./xts/... ./device/... ./luks/... ./internal/sector/... ./cmd/...
  local level
  for level in generic aesni4 aesni avx vaes-avx2 vaes256; do # vaes512 is the default where it runs best
    if [[ ,$(require), == *,$level,* || $level == generic ]]; then
      # What encrypts and decrypts; the levels themselves have their tests in xts.
      XTSDISK_LEVEL=$level go_test "level-$level" -short -run 'Conformance|Crypt|RoundTrip|Fixtures|Unlock|Residue' \
        ./device/... ./luks/... ./internal/sector/...
    fi
  done
}

stage_cross() {
  local target arch
  for target in linux/386 linux/arm linux/arm64 linux/s390x linux/riscv64 darwin/amd64 darwin/arm64 \
    windows/amd64 windows/arm64 freebsd/amd64 freebsd/arm64; do
    GOOS=${target%/*} GOARCH=${target#*/} go build -o /dev/null ./cmd/xtsdisk
    GOOS=${target%/*} GOARCH=${target#*/} go build ./...
    echo "built $target"
  done
  stage_cross_levels
  GOARCH=386 go_test 386 -short -skip "$REPLAYS" ./xts/... ./luks/... ./internal/sector/...
  for arch in arm64:aarch64 s390x:s390x; do
    if command -v "qemu-${arch#*:}-static" >/dev/null; then
      XTSDISK_REQUIRE="" GOARCH=${arch%:*} go_test "${arch%:*}" -short -skip "$REPLAYS|PeakMemory" -exec "qemu-${arch#*:}-static" ./xts/... ./luks/... ./internal/sector/...
    else
      echo "qemu-${arch#*:}-static is not installed: no tests for ${arch%:*}" | tee -a "$work/skips"
    fi
  done
}

# Processors that lack the wider levels, down to one without AES instructions:
# an instruction of another level faults there. No qemu emulates AVX-512.
stage_cross_levels() {
  local entry cpu levels only
  if [[ $(uname -m) != x86_64 ]] || ! command -v qemu-x86_64-static >/dev/null; then
    echo "qemu-x86_64-static is not installed: no tests on emulated processors" | tee -a "$work/skips"
    return
  fi
  # CPU, levels that must run there, subtests: those that no CPU before it had
  local cpus=("Conroe - ." "Westmere aesni4,aesni ." "SandyBridge aesni4,aesni,avx ^avx")
  if qemu-x86_64-static -cpu max,+vaes,+vpclmulqdq /bin/true 2>&1 | grep -q vpclmulqdq; then
    echo "this qemu does not emulate VPCLMULQDQ: vaes-avx2 was tried on this processor only" | tee -a "$work/skips"
  else
    cpus+=("max,+vaes,+vpclmulqdq aesni4,aesni,avx,vaes-avx2 ^vaes-avx2")
  fi
  for entry in "${cpus[@]}"; do
    read -r cpu levels only <<<"$entry"
    XTSDISK_REQUIRE=$levels go_test "cpu-$cpu" -short -exec "qemu-x86_64-static -cpu $cpu" ./xts
    XTSDISK_REQUIRE=$levels go_test "cpu-$cpu-asm" -short -run "/$only" -exec "qemu-x86_64-static -cpu $cpu" ./xts/asm
  done
}

stage_fuzz() {
  local seconds=8 package target
  [[ -z $long ]] || seconds=300
  while read -r package target; do
    echo "fuzz $target ($package)"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" "$package" >"$work/fuzz.log" 2>&1 ||
      { tail -40 "$work/fuzz.log"; return 1; }
    passed=$((passed + 1))
  done < <(grep -rl --include='*_test.go' '^func Fuzz' --exclude-dir=_gen . | while read -r file; do
    sed -nE "s#^func (Fuzz[A-Za-z0-9_]*).*#$(dirname "$file") \1#p" "$file"
  done | sort)
}

stage_integration() { go_test integration -timeout 20m ./integration/...; }

stage_report() { go test -run '^$' -bench Report -benchtime 1x ./internal/speed ./integration/... | grep -vE '^(PASS|ok|goos|goarch|pkg|\?)'; }

XTSDISK_REQUIRE=${XTSDISK_REQUIRE-}
times=()
for stage in "${wanted[@]}"; do
  echo "== $stage"
  start=$SECONDS
  if [[ $stage != deps && -z $XTSDISK_REQUIRE ]]; then
    XTSDISK_REQUIRE=$(require)
    export XTSDISK_REQUIRE
    echo "required here: $XTSDISK_REQUIRE"
  fi
  # Not in a condition: there, bash would switch off errexit inside the stage.
  set +e
  (set -e; "stage_$stage"; echo "$passed $failed $skipped" >"$work/counts")
  rc=$?
  set -e
  if [[ -s $work/counts ]]; then read -r passed failed skipped <"$work/counts"; fi
  times+=("$stage $((SECONDS - start)) s")
  if [[ $rc != 0 ]]; then
    echo "== $stage FAILED after $((SECONDS - start)) s"
    echo "$passed passed, $((failed > 0 ? failed : 1)) failed, $skipped skipped"
    exit 1
  fi
done

echo "== times"
printf '%s\n' "${times[@]}"
if [[ -s $work/skips ]]; then
  echo "== did not run"
  sort "$work/skips" | uniq
fi
echo "$passed passed, $failed failed, $skipped skipped"
