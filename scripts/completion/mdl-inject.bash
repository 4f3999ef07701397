# Completion of mdl-inject's options for bash: source this file, or install it as
# /usr/share/bash-completion/completions/mdl-inject.
_mdl_standard_plans() {
  local program
  program=$(readlink -f "$(type -P "${COMP_WORDS[0]}")") && cd "${program%/*}/../share/mdl/plans" 2>/dev/null && printf '%s\n' *.plan
}

# --help has them as {NAME,NAME}.
_mdl_output_formats() {
  "$(type -P "${COMP_WORDS[0]}")" --help 2>/dev/null | sed -n 's/^ *--format .*{\(.*\)}.*/\1/p' | tr , ' '
}

# Of a query so far, without its quote: its verb, or the functions of the process whose names begin as its last word does.
# Takes what --list needs to find the process.
_mdl_query() {
  local query=$1 word before verbs
  shift
  word=${query##*[ ,]}
  before=${query%"$word"}
  if [[ -z $before ]]; then
    mapfile -t verbs < <(compgen -W "avg bytes calls count cpu hist latency max min self sum time" -- "$word")
    printf '%s \n' "${verbs[@]}"
    [[ ${#verbs[@]} == 1 ]] && printf '%s /Code/\n' "${verbs[0]}"  # behind a single one the quote would be closed
  elif [[ -n $word ]]; then
    "$(type -P "${COMP_WORDS[0]}")" --list "$@" "/Code/*/$word*" 2>/dev/null </dev/null | head -n 200 |
      sed -n 's|^/Code/[^/]*/\([A-Za-z0-9_]*\)\(  =.*\)\{0,1\}$|\1|p' | sort -u |
      while read -r word; do printf '%s\n' "$before$word"; done
  fi
}

_mdl_inject() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local options="-p --every --all-children --cgroup --container --follow --skip-refused --show-mdl -m -f -i -d -o --format --top --sample --sort --all --verbose --timing --dry-run --explain --strict --detach --check --follow-fork --flavor --max-keys --allow-calls --allow-reads --allow-command --raw-times --allow-traps --budget --separate --no-separate --max-pause --break-lock --require-signed
    --await --commands --share --alone --metrics --run --status --remove --list --verify --help --version"
  local pids word i
  case $previous in
    --format) mapfile -t COMPREPLY < <(compgen -W "$(_mdl_output_formats)" -- "$current"); return ;;
    -o | --verify | --run | --require-signed | --commands) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    -p) mapfile -t COMPREPLY < <(compgen -W "$(cat /proc/[0-9]*/comm 2>/dev/null)" -- "$current"); return ;;
    --cgroup) mapfile -t COMPREPLY < <(compgen -d -- "${current:-/sys/fs/cgroup/}"); return ;;
    --sort) mapfile -t COMPREPLY < <(compgen -W "total rate delta name" -- "$current"); return ;;
    -m | -f | -i | -d | --top | --sample | --flavor | --max-keys | --max-pause | --budget) return ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  # The first word that is no option is a process, what follows is a plan or a source.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word =~ ^[0-9]+$ || $word == -p || $word == --cgroup || $word == --container ]]; then
      [[ ${COMP_WORDS[1]} == top ]] && return  # it needs no more
      if [[ $current == [\'\"]* ]]; then
        compopt +o filenames 2>/dev/null
        case $word in
          -*) mapfile -t COMPREPLY < <(_mdl_query "${current:1}" "$word" "${COMP_WORDS[i+1]}") ;;
          *) mapfile -t COMPREPLY < <(_mdl_query "${current:1}" "$word") ;;
        esac
        return
      fi
      mapfile -t COMPREPLY < <(compgen -f -- "$current"; compgen -W "$(_mdl_standard_plans)" -- "$current")
      return
    fi
  done
  pids=$(cd /proc && printf '%s\n' [0-9]*)
  mapfile -t COMPREPLY < <(compgen -W "top $pids" -- "$current")
}
complete -o filenames -F _mdl_inject mdl-inject
