# bash completion for tasdfs

_tasdfs_mount_options()
{
	local word=${cur##*,} before=
	local words='root=folder root=dict faces=both faces=one nosplit
		allow_other mode=auto mode=cached mode=direct threads= log=
		ready_fd= noexec ro'

	[[ $cur == *,* ]] && before=${cur%,*},
	COMPREPLY=($(compgen -P "$before" -W "$words" -- "$word"))
	[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}

# Offer the lines of standard input after $1.  They are names from files that
# are not to be trusted: compgen -W would expand them, so nothing here does, and
# what reaches the command line is quoted.
_tasdfs_offer()
{
	local before=$1 name

	while IFS= read -r name; do
		name=$before$name
		[[ $name == "$cur"* ]] || continue
		printf -v name %q "$name"
		COMPREPLY+=("$name")
	done
}

# Names inside SOURCE, as tasdfs ls shows them.
_tasdfs_inside()
{
	local source=$1 dir=

	[[ $cur == */* ]] && dir=${cur%/*}
	_tasdfs_offer "${dir:+$dir/}" < <(
		tasdfs ls -- "$source" ${dir:+"$dir"} 2>/dev/null)
	compopt -o nospace
}

_tasdfs_mounts()
{
	_tasdfs_offer '' < <(awk '
		{ for (i = 7; i < NF; i++)
			if ($i == "-" && $(i + 1) == "fuse.tasdfs")
				print $5 }
		' /proc/self/mountinfo 2>/dev/null)
}

_tasdfs()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	local command=${COMP_WORDS[1]} i
	local -a operands=()
	local -A options=(
		[mount]='-f -d -o --help'
		[umount]='--lazy --help'
		[ls]='-l -R --json --help'
		[tree]='--json --help'
		[info]='--json --help'
		[cat]='--npy --f32 --values --help'
		[diff]='--strip --keys-only --no-values --json --help'
		[export]='--only --strip --skip -f --force --help'
		[scan]='--json --help'
		[doctor]='--json --help'
		[help]=''
	)

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen \
			-W "${!options[*]} --help --version" -- "$cur"))
		return
	fi
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "${options[$command]}" -- "$cur"))
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i-1]} == -o ]] && continue
		[[ ${COMP_WORDS[i]} == -* ]] || operands+=("${COMP_WORDS[i]}")
	done
	case $command in
	mount)
		if [[ $prev == -o ]]; then
			_tasdfs_mount_options
		elif ((${#operands[@]} == 0)); then
			compopt -o filenames
			COMPREPLY=($(compgen -f -- "$cur"))
		else
			compopt -o filenames
			COMPREPLY=($(compgen -d -- "$cur"))
		fi
		;;
	umount)
		_tasdfs_mounts
		;;
	help)
		COMPREPLY=($(compgen -W "${!options[*]}" -- "$cur"))
		;;
	diff | export)
		# What follows --only and --strip is no file.
		if [[ $prev != --only && $prev != --strip ]]; then
			compopt -o filenames
			COMPREPLY=($(compgen -f -- "$cur"))
		fi
		;;
	scan)
		compopt -o filenames
		COMPREPLY=($(compgen -f -- "$cur"))
		;;
	ls | tree | info | cat)
		if ((${#operands[@]} == 0)); then
			compopt -o filenames
			COMPREPLY=($(compgen -f -- "$cur"))
		else
			_tasdfs_inside "${operands[0]/#\~/$HOME}"
		fi
		;;
	esac
}

complete -F _tasdfs tasdfs
