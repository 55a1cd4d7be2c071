# bash completion for gpuimgctl(1); the build inserts the names of formats and operations.

_gpuimgctl_operations="@operations@"

# Completes the last operation of a list separated by commas.
_gpuimgctl_ops()
{
    local before=
    [[ $1 == *,* ]] && before=${1%,*},
    compopt -o nospace
    COMPREPLY=($(compgen -P "$before" -W "$_gpuimgctl_operations" -- "${1##*,}"))
}

# Completes the value of an option: the word after it, or the part after its =.
_gpuimgctl_value() # option text
{
    case $1 in
    --ops) _gpuimgctl_ops "$2" ;;
    --format) COMPREPLY=($(compgen -W "@formats@" -- "$2")) ;;
    --on-error) COMPREPLY=($(compgen -W "skip fail" -- "$2")) ;;
    --frames) COMPREPLY=($(compgen -W "first all refuse strip:" -- "$2")) ;;
    --pack) COMPREPLY=($(compgen -W "tar array" -- "$2")) ;;
    --from) COMPREPLY=($(compgen -W "list stream" -- "$2")) ;;
    --config | -c | --ops-file | --job-file | -j | --out | -o | --shards)
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "$2")) ;;
    --quality | --page | --set | --id | --priority | -p | --for | --timeout | --limit | -n | --interval | -i | --count | --redis | \
        --group | -g | --consumer | --idle | --list | --pattern | \
        --namespace | --shard)
        COMPREPLY=() ;;
    *) return 1 ;;
    esac
}

_gpuimgctl()
{
    local commands="submit result results status top dead cancel pause resume drain explain"
    local common="--config --redis --namespace --shard --json --help --version -c -h -V"
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} options=

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$commands -h --help -V --version" -- "$word"))
        return
    fi
    # bash splits --name=value into --name, = and value.
    if [[ $word == = ]]; then
        _gpuimgctl_value "$previous" "" && return
    elif [[ $previous == = ]]; then
        _gpuimgctl_value "${COMP_WORDS[COMP_CWORD - 2]}" "$word" && return
    fi
    _gpuimgctl_value "$previous" "$word" && return
    case $command in
    submit)
        options="--out --no-output --ops --ops-file --format --quality --set --recursive --null
            --keys --force --job-file --id --first --priority --wait --timeout --verbose
            --list --shards --pattern --on-error --pack --page --frames --recompress
            -o -r -0 -k -f -j -p -w -v" ;;
    result) options="--wait --timeout -w" ;;
    results) options="--follow --from --group --consumer --new --idle --count -f -g -n" ;;
    pause) options="--for" ;;
    drain) options="--timeout" ;;
    top) options="--interval --count -i -n" ;;
    dead)
        options="--all --limit -a -n"
        if ((COMP_CWORD == 2)); then
            COMPREPLY=($(compgen -W "list show retry drop" -- "$word"))
            [[ $word == -* ]] || return
        fi ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$options $common" -- "$word"))
    elif [[ $command == submit || $command == explain ]]; then
        compopt -o filenames
        COMPREPLY=($(compgen -f -- "$word"))
    fi
} && complete -F _gpuimgctl gpuimgctl
