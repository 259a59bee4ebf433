# fish completion for tasdfs

set -l commands mount umount ls tree info cat diff export scan doctor help

function __tasdfs_operands
    set -l words (commandline -opc)
    for word in $words[3..]
        string match -q -- '-*' $word; or echo $word
    end
end

function __tasdfs_inside
    set -l operands (__tasdfs_operands)
    set -l word (commandline -ct)
    set -l dir
    string match -q '*/*' -- $word; and set dir (string replace -r '/[^/]*$' '' -- $word)
    set -l prefix ''
    test -n "$dir"; and set prefix $dir/
    for name in (tasdfs ls -- $operands[1] $dir 2>/dev/null)
        echo $prefix$name
    end
end

function __tasdfs_mounts
    string match -rg '^(?:\S+ ){4}(\S+) .* - fuse\.tasdfs ' </proc/self/mountinfo
end

complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -f
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -l help -s h -d 'Show help'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -l version -s V -d 'Show the version'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a mount -d 'Mount a checkpoint, or a folder of them'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a umount -d 'Unmount, and wait for the server'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a ls -d 'List a state dict, or a folder of checkpoints'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a tree -d 'Show every tensor'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a info -d 'Tell what a checkpoint or a tensor is'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a cat -d "Write one tensor's bytes, or its first numbers"
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a diff -d 'Compare two checkpoints'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a export -d 'Write the tensors into one safetensors file'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a scan -d 'Tell what pickles would import'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a doctor -d 'Tell what this machine allows'
complete -c tasdfs -n "not __fish_seen_subcommand_from $commands" -a help -d 'Show help on a command'

complete -c tasdfs -n "__fish_seen_subcommand_from $commands" -l help -s h -d 'Show help'
complete -c tasdfs -n '__fish_seen_subcommand_from help' -f -a "$commands"
complete -c tasdfs -n '__fish_seen_subcommand_from doctor' -f
complete -c tasdfs -n '__fish_seen_subcommand_from ls tree info diff scan doctor' -l json -d 'As JSON'
complete -c tasdfs -n '__fish_seen_subcommand_from ls' -s l -d Columns
complete -c tasdfs -n '__fish_seen_subcommand_from ls' -s R -d 'Directories below too'
complete -c tasdfs -n '__fish_seen_subcommand_from cat' -l npy -d 'As a .npy file'
complete -c tasdfs -n '__fish_seen_subcommand_from cat' -l f32 -d 'As a .npy file of float32'
complete -c tasdfs -n '__fish_seen_subcommand_from cat' -l values -d 'First numbers as text'
complete -c tasdfs -n '__fish_seen_subcommand_from diff export' -l strip -x -d 'Without that prefix'
complete -c tasdfs -n '__fish_seen_subcommand_from diff' -l keys-only -d 'Only the keys'
complete -c tasdfs -n '__fish_seen_subcommand_from diff' -l no-values -d 'Read no data'
complete -c tasdfs -n '__fish_seen_subcommand_from export' -l only -x -d 'Keys that match'
complete -c tasdfs -n '__fish_seen_subcommand_from export' -l skip -d 'Leave out what cannot be held'
complete -c tasdfs -n '__fish_seen_subcommand_from export' -s f -l force -d 'Replace the file'
complete -c tasdfs -n '__fish_seen_subcommand_from umount' -l lazy -s l -d 'Detach even while in use'
complete -c tasdfs -n '__fish_seen_subcommand_from umount' -f -a '(__tasdfs_mounts)'
complete -c tasdfs -n '__fish_seen_subcommand_from mount' -s f -d 'Stay in the foreground'
complete -c tasdfs -n '__fish_seen_subcommand_from mount' -s d -d 'Trace requests'
complete -c tasdfs -n '__fish_seen_subcommand_from mount' -s o -x -d 'Mount options' -a 'root=folder root=dict faces=both faces=one nosplit allow_other mode=auto mode=cached mode=direct threads= log= ready_fd= noexec ro'
complete -c tasdfs -n '__fish_seen_subcommand_from ls tree info cat; and test (count (__tasdfs_operands)) -ge 1' -f -a '(__tasdfs_inside)'
