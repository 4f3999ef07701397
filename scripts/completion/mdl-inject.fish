# Completion of mdl-inject for fish: a file of this name in a folder of $fish_complete_path. The options and formats are
# those of --help.

function __mdl_program
    set -l words (commandline -opc)
    command -s $words[1]
end

# The words by which the process is found, so far: an id, or an option and what stands behind it.
function __mdl_process
    set -l words (commandline -opc)
    for i in (seq 2 (count $words))
        if string match -qr '^(-p|--process|--cgroup|--container)$' -- $words[$i]
            printf '%s\n' $words[$i] $words[(math $i + 1)]
            return
        else if string match -qr '^[1-9][0-9]*$' -- $words[$i]
            echo $words[$i]
            return
        end
    end
    return 1
end

# Of the query so far: its verbs, or itself with the functions of the process whose names begin as its last word does.
function __mdl_query
    set -l process (__mdl_process); or return
    set -l query (string replace -r '^[\'"]' '' -- (commandline -ct))
    set -l word (string replace -r '.*[ ,]' '' -- $query)
    set -l before (string sub -l (math (string length -- "$query") - (string length -- "$word")) -- "$query")
    if test -z "$before"
        printf '%s \n' avg bytes calls count cpu hist latency max min self sum time
    else if test -n "$word"
        set -l program (__mdl_program)
        for name in ($program --list $process "/Code/*/$word*" 2>/dev/null </dev/null | head -n 200 |
                sed -n 's|^/Code/[^/]*/\([A-Za-z0-9_]*\)\(  =.*\)\{0,1\}$|\1|p' | sort -u)
            printf '%s\n' "$before$name"
        end
    end
end

function __mdl_in_query
    string match -qr '^[\'"]' -- (commandline -ct); and __mdl_process >/dev/null
end

function __mdl_options
    set -l program (__mdl_program)
    $program --help 2>/dev/null | sed -n 's/^  *\(-[a-zA-Z]\),\(--[a-z-]*\).*/\1\n\2/p; s/^  *\(--[a-z-]*\).*/\1/p'
end

function __mdl_formats
    set -l program (__mdl_program)
    $program --help 2>/dev/null | sed -n 's/^ *--format .*{\(.*\)}.*/\1/p' | string split ,
end

function __mdl_behind
    set -l words (commandline -opc)
    contains -- $words[-1] $argv
end

complete -c mdl-inject -n '__mdl_in_query' -f -a '(__mdl_query)'
complete -c mdl-inject -n 'not __mdl_process >/dev/null' -f -a 'top (string match -r "^[0-9]+\$" -- (ls /proc))'
complete -c mdl-inject -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__mdl_options)'
complete -c mdl-inject -n '__mdl_behind --format' -f -a '(__mdl_formats)'
complete -c mdl-inject -n '__mdl_behind --sort' -f -a 'total rate delta name'
complete -c mdl-inject -n '__mdl_behind -p --process' -f -a '(cat /proc/*/comm 2>/dev/null | sort -u)'
