#pragma once

// What shells do with the table of `keel completion`: they find out where on the command line the cursor is, ask
// _keel_offers what may stand there, and look for files themselves. Each goes over the words in the same way.

namespace keel::cli {

// Bash takes `=` for the end of a word (COMP_WORDBREAKS), so that in run.precision=bf the word to complete is bf; the
// line itself says what is before it. Without -o filenames nothing is quoted, and the space behind a word is ours.
inline constexpr const char* kBashScript = R"shell(
_keel_add() {  # KEY VALUE [BEGIN]: what is offered at KEY and begins with VALUE and with BEGIN
  local offer file list
  while IFS=$'\t' read -r offer _; do
    case $offer in
      @files) _keel_files=default ;;
      @folders) _keel_files=dirnames ;;
      @list)  # files in [a,b]
        list=${2%"${2##*[\[,]}"}
        while IFS= read -r file; do
          if [[ -d $file ]]; then COMPREPLY+=("${list:-[}$file/"); else COMPREPLY+=("${list:-[}$file]$_keel_space"); fi
        done < <(compgen -f -- "${2#"$list"}")
        ;;
      @settings*)
        if [[ $2 == *=* ]]; then
          _keel_lead=${2%%=*}=
          _keel_add "=${2%%=*}" "${2#*=}"
        else
          _keel_add = "$2" "${offer#@settings }"
        fi
        ;;
      "$3"*)
        [[ $offer == "$2"* ]] || continue
        [[ $offer == *= ]] || offer+=$_keel_space
        COMPREPLY+=("$offer")
        ;;
    esac
  done < <(_keel_offers "$1")
}

_keel() {
  local line=${COMP_LINE:0:COMP_POINT} words=() word current command= behind= place=1 key i _keel_files= _keel_lead= _keel_space=' '
  COMPREPLY=()
  read -ra words <<<"$line"
  [[ $line == *[[:blank:]] ]] && words+=('')
  current=${words[${#words[@]} - 1]}
  for word in "${words[@]:1:${#words[@]}-2}"; do
    if [[ -z $command ]]; then
      [[ $word == -* ]] || command=$word
    elif [[ -n $behind ]]; then
      behind=
    elif [[ $word == -* ]]; then
      _keel_offers "$command:$word" >/dev/null && behind=$word
    else
      ((++place))
    fi
  done
  [[ $current == *[\"\']* ]] && _keel_space=  # bash closes the quote
  current=${current#[\"\']}
  if [[ -z $command ]]; then
    key=
  elif [[ -n $behind ]]; then
    key=$command:$behind
  elif [[ $current == --*=* ]]; then
    key=$command:${current%%=*} _keel_lead=${current%%=*}=
    current=${current#*=}
  elif [[ $current == -* ]]; then
    key=$command:-
  else
    key=$command:$place
    _keel_offers "$key" >/dev/null || key=$command:+
  fi
  _keel_add "$key" "${current/%=[\"\']/=}"
  current=${current#"$_keel_lead"}
  if [[ -n $_keel_lead && $COMP_WORDBREAKS != *=* ]]; then
    while [[ -n $_keel_files ]] && IFS= read -r word; do
      if [[ -d $word ]]; then COMPREPLY+=("$word/"); else COMPREPLY+=("$word$_keel_space"); fi
    done < <(compgen -f -- "$current")
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$_keel_lead${COMPREPLY[i]}; done
  elif [[ -n $_keel_files && ${#COMPREPLY[@]} == 0 ]]; then
    compopt -o $_keel_files  # bash's own, which knows about quotes and ~
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
_keel_give() {  # KEY [BEGIN]: what is offered at KEY and begins with BEGIN
  local offer key list result=1
  local -a offers plain keys
  offers=("${(@f)$(_keel_offers "$1")}")
  for offer in $offers; do
    case $offer in
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
          _keel_give "=$key" && result=0
        else
          _keel_give = "${offer#@settings }" && result=0
        fi
        ;;
      ${~${(b)2}}*)
        offer=${offer//:/\\:}
        if [[ ${offer%%$'\t'*} == *= ]]; then
          keys+=("${offer/$'\t'/:}")
        else
          plain+=("${offer/$'\t'/:}")
        fi
        ;;
    esac
  done
  (( $#keys )) && _describe -t settings setting keys -S '' && result=0
  (( $#plain )) && _describe -t values value plain && result=0
  return result
}

_keel() {
  local word command behind key
  local -i place=1
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ -z $command ]]; then
      [[ $word == -* ]] || command=$word
    elif [[ -n $behind ]]; then
      behind=
    elif [[ $word == -* ]]; then
      _keel_offers "$command:$word" >/dev/null && behind=$word
    else
      (( ++place ))
    fi
  done
  if [[ -z $command ]]; then
    key=
  elif [[ -n $behind ]]; then
    key=$command:$behind
  elif [[ $PREFIX == --*=* ]]; then
    key=$command:${PREFIX%%=*}
    compset -P '--*='
  elif [[ $PREFIX == -* ]]; then
    key=$command:-
  else
    key=$command:$place
    _keel_offers "$key" >/dev/null || key=$command:+
  fi
  _keel_give "$key"
}

if [[ $funcstack[1] == _keel ]]; then
  _keel "$@"
else
  compdef _keel keel
fi
)shell";

inline constexpr const char* kFishScript = R"shell(
function __keel_give  # KEY VALUE LEAD BEGIN: what is offered at KEY, behind LEAD, and begins with BEGIN
  for offer in (__keel_offers $argv[1])
    switch $offer
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
          __keel_give "=$parts[1]" "$parts[2]" "$parts[1]="
        else
          __keel_give = $argv[2] '' (string replace '@settings ' '' -- $offer)
        end
      case "$argv[4]*"
        echo "$argv[3]$offer"
    end
  end
end

function __keel_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l command ''
  set -l behind ''
  set -l place 1
  for word in $words[2..-1]
    if test -z "$command"
      string match -q -- '-*' $word; or set command $word
    else if test -n "$behind"
      set behind ''
    else if string match -q -- '-*' $word
      __keel_offers "$command:$word" >/dev/null; and set behind $word
    else
      set place (math $place + 1)
    end
  end
  if test -z "$command"
    __keel_give '' "$current"
  else if test -n "$behind"
    __keel_give "$command:$behind" "$current"
  else if string match -q -- '--*=*' $current
    set -l parts (string split -m 1 = -- $current)
    __keel_give "$command:$parts[1]" "$parts[2]" "$parts[1]="
  else if string match -q -- '-*' $current
    __keel_give "$command:-" "$current"
  else if __keel_offers "$command:$place" >/dev/null
    __keel_give "$command:$place" "$current"
  else
    __keel_give "$command:+" "$current"
  end
end

complete -c keel -f -a '(__keel_complete)'
)shell";

}  // namespace keel::cli
