#pragma once

// Shell code of `keel completion`. Each script parses the command line in the same way, gets the candidates for the
// cursor's position from _keel_candidates, and completes file names itself.

namespace keel::cli {

// Bash ends a word at `=` (COMP_WORDBREAKS): in run.precision=bf, it completes bf, so the script reads the whole line.
// The script works without -o filenames, so it appends the space after a candidate itself.
inline constexpr const char* kBashScript = R"shell(
_keel_add() {  # POSITION VALUE [PREFIX]: adds the candidates at POSITION that begin with VALUE and with PREFIX
  local candidate file list
  while IFS=$'\t' read -r candidate _; do
    case $candidate in
      @files) _keel_files=default ;;
      @folders) _keel_files=dirnames ;;
      @list)  # files in [a,b]; list is the part up to the last [ or ,
        list=${2%"${2##*[\[,]}"}
        while IFS= read -r file; do
          if [[ -d $file ]]; then COMPREPLY+=("${list:-[}$file/"); else COMPREPLY+=("${list:-[}$file]$_keel_space"); fi
        done < <(compgen -f -- "${2#"$list"}")
        ;;
      @settings*)
        if [[ $2 == *=* ]]; then
          _keel_prefix=${2%%=*}=
          _keel_add "=${2%%=*}" "${2#*=}"
        else
          _keel_add = "$2" "${candidate#@settings }"
        fi
        ;;
      "$3"*)
        [[ $candidate == "$2"* ]] || continue
        [[ $candidate == *= ]] || candidate+=$_keel_space
        COMPREPLY+=("$candidate")
        ;;
    esac
  done < <(_keel_candidates "$1")
}

_keel() {
  local line=${COMP_LINE:0:COMP_POINT} words=() word current command= option= position=1 key i _keel_files= _keel_prefix= _keel_space=' '
  COMPREPLY=()
  read -ra words <<<"$line"
  [[ $line == *[[:blank:]] ]] && words+=('')
  current=${words[${#words[@]} - 1]}
  for word in "${words[@]:1:${#words[@]}-2}"; do
    if [[ -z $command ]]; then
      [[ $word == -* ]] || command=$word
    elif [[ -n $option ]]; then
      option=
    elif [[ $word == -* ]]; then
      _keel_candidates "$command:$word" >/dev/null && option=$word
    else
      ((++position))
    fi
  done
  [[ $current == *[\"\']* ]] && _keel_space=  # bash adds the closing quote and the space
  current=${current#[\"\']}
  if [[ -z $command ]]; then
    key=
  elif [[ -n $option ]]; then
    key=$command:$option
  elif [[ $current == --*=* ]]; then
    key=$command:${current%%=*} _keel_prefix=${current%%=*}=
    current=${current#*=}
  elif [[ $current == -* ]]; then
    key=$command:-
  else
    key=$command:$position
    _keel_candidates "$key" >/dev/null || key=$command:+
  fi
  _keel_add "$key" "${current/%=[\"\']/=}"  # without the opening quote of a value
  current=${current#"$_keel_prefix"}
  if [[ -n $_keel_prefix && $COMP_WORDBREAKS != *=* ]]; then
    while [[ -n $_keel_files ]] && IFS= read -r word; do
      if [[ -d $word ]]; then COMPREPLY+=("$word/"); else COMPREPLY+=("$word$_keel_space"); fi
    done < <(compgen -f -- "$current")
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$_keel_prefix${COMPREPLY[i]}; done
  elif [[ -n $_keel_files && ${#COMPREPLY[@]} == 0 ]]; then
    compopt -o $_keel_files  # bash completes file names with quotes and ~
    return
  elif [[ -n $_keel_files ]]; then
    while IFS= read -r word; do
      if [[ -d $word ]]; then COMPREPLY+=("$word/"); else COMPREPLY+=("$word$_keel_space"); fi
    done < <(compgen -f -- "$current")
  fi
  compopt -o nospace
}
complete -F _keel keel
)shell";

inline constexpr const char* kZshScript = R"shell(
_keel_add() {  # POSITION [PREFIX]: adds the candidates at POSITION that begin with PREFIX
  local candidate key list result=1
  local -a candidates plain keys
  candidates=("${(@f)$(_keel_candidates "$1")}")
  for candidate in $candidates; do
    case $candidate in
      @files) _files && result=0 ;;
      @folders) _path_files -/ && result=0 ;;
      @list)  # files in [a,b]
        if [[ $PREFIX == *[\[,]* ]]; then
          list=${PREFIX%${PREFIX##*[\[,]}}
          compset -P "${(b)list}"
          _files -S '\]' && result=0
        else
          _files -P '\[' -S '\]' && result=0
        fi
        ;;
      @settings*)
        if [[ $PREFIX == *=* ]]; then
          key=${PREFIX%%=*}
          compset -P "${(b)key}="
          _keel_add "=$key" && result=0
        else
          _keel_add = "${candidate#@settings }" && result=0
        fi
        ;;
      ${~${(b)2}}*)
        candidate=${candidate//:/\\:}
        if [[ ${candidate%%$'\t'*} == *= ]]; then
          keys+=("${candidate/$'\t'/:}")
        else
          plain+=("${candidate/$'\t'/:}")
        fi
        ;;
    esac
  done
  (( $#keys )) && _describe -t settings setting keys -S '' && result=0
  (( $#plain )) && _describe -t values value plain && result=0
  return result
}

_keel() {
  local word command option key
  local -i position=1
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ -z $command ]]; then
      [[ $word == -* ]] || command=$word
    elif [[ -n $option ]]; then
      option=
    elif [[ $word == -* ]]; then
      _keel_candidates "$command:$word" >/dev/null && option=$word
    else
      (( ++position ))
    fi
  done
  if [[ -z $command ]]; then
    key=
  elif [[ -n $option ]]; then
    key=$command:$option
  elif [[ $PREFIX == --*=* ]]; then
    key=$command:${PREFIX%%=*}
    compset -P '--*='
  elif [[ $PREFIX == -* ]]; then
    key=$command:-
  else
    key=$command:$position
    _keel_candidates "$key" >/dev/null || key=$command:+
  fi
  _keel_add "$key"
}

if [[ $funcstack[1] == _keel ]]; then
  _keel "$@"
else
  compdef _keel keel
fi
)shell";

inline constexpr const char* kFishScript = R"shell(
function __keel_print  # POSITION VALUE LEAD PREFIX: prints LEAD and each candidate at POSITION that begins with PREFIX
  for candidate in (__keel_candidates $argv[1])
    switch $candidate
      case @files
        for path in (__fish_complete_path $argv[2])
          echo "$argv[3]$path"
        end
      case @folders
        for path in (__fish_complete_directories $argv[2] '')
          echo "$argv[3]$path"
        end
      case @list  # files in [a,b]
        set -l list (string match -r '.*[\[,]' -- $argv[2]; or echo '[')
        for path in (__fish_complete_path (string replace -r '.*[\[,]' '' -- $argv[2]))
          set path (string split -m 1 \t -- $path)[1]
          string match -q '*/' -- $path; and echo "$argv[3]$list$path"; or echo "$argv[3]$list$path"']'
        end
      case '@settings*'
        if string match -q '*=*' -- $argv[2]
          set -l parts (string split -m 1 = -- $argv[2])
          __keel_print "=$parts[1]" "$parts[2]" "$parts[1]="
        else
          __keel_print = $argv[2] '' (string replace '@settings ' '' -- $candidate)
        end
      case "$argv[4]*"
        echo "$argv[3]$candidate"
    end
  end
end

function __keel_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l command ''
  set -l option ''
  set -l position 1
  for word in $words[2..-1]
    if test -z "$command"
      string match -q -- '-*' $word; or set command $word
    else if test -n "$option"
      set option ''
    else if string match -q -- '-*' $word
      __keel_candidates "$command:$word" >/dev/null; and set option $word
    else
      set position (math $position + 1)
    end
  end
  if test -z "$command"
    __keel_print '' "$current"
  else if test -n "$option"
    __keel_print "$command:$option" "$current"
  else if string match -q -- '--*=*' $current
    set -l parts (string split -m 1 = -- $current)
    __keel_print "$command:$parts[1]" "$parts[2]" "$parts[1]="
  else if string match -q -- '-*' $current
    __keel_print "$command:-" "$current"
  else if __keel_candidates "$command:$position" >/dev/null
    __keel_print "$command:$position" "$current"
  else
    __keel_print "$command:+" "$current"
  end
end

complete -c keel -f -a '(__keel_complete)'
)shell";

}  // namespace keel::cli
