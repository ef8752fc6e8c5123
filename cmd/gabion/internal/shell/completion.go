package shell

import (
	"fmt"
	"strings"
)

// Shells are those that Completion knows.
var Shells = []string{"bash", "fish", "powershell", "zsh"}

// Completion returns a script that completes gabion's commands and flags in a shell,
// and file names where neither fits; "" for a shell that it does not know.
func (t Tree) Completion(shell string) string {
	switch shell {
	case "bash":
		return t.bash()
	case "fish":
		return t.fish()
	case "powershell":
		return t.powershell()
	case "zsh":
		return t.zsh()
	}
	return ""
}

// words is what may follow a command: the words that name one, and flags.
func (c Command) words() string {
	return strings.Join(append(c.Next[:len(c.Next):len(c.Next)], c.Flags()...), " ")
}

// cases writes one line for each command, by its words.
func (t Tree) cases(b *strings.Builder, format string) {
	for _, c := range t {
		fmt.Fprintf(b, format, c.line(), c.words())
	}
}

func (t Tree) bash() string {
	var b strings.Builder
	b.WriteString(`# bash completion for gabion: source <(gabion completion bash)
_gabion() {
	local line= word cur=${COMP_WORDS[COMP_CWORD]}
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case "$word" in -*) continue ;; esac
		case "$line" in *" "*) ;; "") line=$word ;; *) line="$line $word" ;; esac
	done
	local words=
	_gabion_words "$line" || _gabion_words "${line% *}"
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
	if [ ${#COMPREPLY[@]} = 0 ]; then COMPREPLY=($(compgen -f -- "$cur")); fi
}
_gabion_words() {
	case "$1" in
`)
	t.cases(&b, "	'%s') words='%s' ;;\n")
	b.WriteString("	*) return 1 ;;\n	esac\n}\ncomplete -o filenames -F _gabion gabion\n")
	return b.String()
}

func (t Tree) zsh() string {
	var b strings.Builder
	b.WriteString(`#compdef gabion
# zsh completion for gabion: source <(gabion completion zsh), or as _gabion in $fpath
_gabion() {
	local line= word
	for word in "${(@)words[2,CURRENT-1]}"; do
		case "$word" in -*) continue ;; esac
		case "$line" in *" "*) ;; "") line=$word ;; *) line="$line $word" ;; esac
	done
	local -a next
	_gabion_words "$line" || _gabion_words "${line% *}"
	compadd -- $next
	_files
}
_gabion_words() {
	case "$1" in
`)
	t.cases(&b, "	'%s') next=(%s) ;;\n")
	b.WriteString("	*) return 1 ;;\n	esac\n}\nif [ \"$funcstack[1]\" = _gabion ]; then _gabion \"$@\"; else compdef _gabion gabion; fi\n")
	return b.String()
}

func (t Tree) fish() string {
	var b strings.Builder
	b.WriteString(`# fish completion for gabion: gabion completion fish | source
function __gabion_words
	set -l line
	for word in (commandline -opc)[2..]
		string match -q -- '-*' $word; or test (count $line) -ge 2; or set -a line $word
	end
	__gabion_of "$line"; or __gabion_of "$line[1]"
end
function __gabion_of
	switch "$argv[1]"
`)
	t.cases(&b, "		case '%s'\n			string split ' ' -- '%s'\n")
	b.WriteString("		case '*'\n			return 1\n	end\nend\ncomplete -c gabion -a '(__gabion_words)'\n")
	return b.String()
}

func (t Tree) powershell() string {
	var b strings.Builder
	b.WriteString(`# PowerShell completion for gabion: gabion completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName gabion -ScriptBlock {
	param($wordToComplete, $commandAst, $cursorPosition)
	$next = @{
`)
	t.cases(&b, "		'%s' = '%s'\n")
	b.WriteString(`	}
	$typed = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" } |
		Where-Object { $_ -ne $wordToComplete -and -not $_.StartsWith('-') } | Select-Object -First 2)
	$line = $typed -join ' '
	if (-not $next.ContainsKey($line)) { $line = "$($typed | Select-Object -First 1)" }
	if (-not $next.ContainsKey($line)) { return }
	$next[$line].Split(' ') | Where-Object { $_.StartsWith($wordToComplete) } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`)
	return b.String()
}
