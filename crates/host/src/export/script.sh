# A place is changed only while it holds what it held when this script was made, and put back only
# while it holds what this script gave it: what somebody else has set is kept and told. Changing
# or undoing twice does no harm. Kernel settings are back after a reboot, too.
# Exit codes: 0 all done, 1 something was kept or failed, 2 wrong usage, 3 not root.
#
# Single quotes hold values, which are not to be expanded; a plan that changes nothing needs no move.
# shellcheck disable=SC2016,SC2317
set -eu

missed=0
optional=no
newline='
'

# move KIND PLACE FROM TO
move() {
    kind=$1 place=$2 from=$3 to=$4
    if ! now=$(look); then
        echo "GONE     $place"
        # To undo what is gone there is nothing to do.
        [ "$verb" = undo ] || missed=1
    elif same "$now" "$to"; then
        echo "as is    $place"
    elif ! same "$now" "$from"; then
        echo "KEPT     $place: $(brief "$now"), set by somebody else"
        missed=1
    elif give && now=$(look) && same "$now" "$to"; then
        echo "changed  $place: $(brief "$from") -> $(brief "$to")"
    elif [ "$optional" = yes ]; then
        echo "refused  $place: $(brief "$now")"
    else
        echo "FAILED   $place: $(brief "$now") instead of $(brief "$to")"
        missed=1
    fi
}

brief() {
    printf '%s' "${1%%"$newline"*}"
}

same() {
    [ "$(plain "$1")" = "$(plain "$2")" ]
}
