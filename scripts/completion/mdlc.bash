# bash completion for mdlc; source it, or put it in /usr/share/bash-completion/completions/mdlc.
_mdlc() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} option=
  # bash splits at `=`: `--emit=ir` is three words.
  if [[ $word == = ]]; then option=$previous word=; elif [[ $previous == = ]]; then option=${COMP_WORDS[COMP_CWORD - 2]}; fi
  case ${option:-$previous} in
    --target) COMPREPLY=($(compgen -W 'x86_64 aarch64 riscv64' -- "$word")); return ;;
    --std) COMPREPLY=($(compgen -W 'mdl26 classic' -- "$word")); return ;;
    --emit) COMPREPLY=($(compgen -W 'plan ast ir asm mdl' -- "$word")); return ;;
    --color) COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
    --diagnostics) COMPREPLY=($(compgen -W 'text json sarif' -- "$word")); return ;;
    --disable-pass) COMPREPLY=($(compgen -W 'all constant-fold bound-constants common-subexpressions
      strength-reduction jump-threading dead-stores dead-code bound-guards vectorize peephole' -- "$word")); return ;;
    -o | -MD | --sign) COMPREPLY=($(compgen -f -- "$word")); return ;;
    -I) COMPREPLY=($(compgen -d -- "$word")); return ;;
    --flavor | --explain | -mcpu | --edition | --not-after) return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W '-o -I --use --query= --target= -mcpu= --std= --flavor= --emit= --check --cost --disable-pass= -Werror -Wno-
      -MD --diagnostics= --color= --apply-fixes --reformat --in-place --lsp --sign --edition --not-after --explain --version --help' -- "$word"))
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
  else
    COMPREPLY=($(compgen -f -X '!*.mdl' -- "$word") $(compgen -d -S / -- "$word"))
  fi
}
complete -F _mdlc mdlc
