#!/bin/sh
# Start the server for other machines: with a key, which is made once, and corpora that clients upload.
set -eu
data="${HOPTREE_VOLUME:-/data}"

if [ ! -f "$data/keys.toml" ]; then
    secret=$(python3 -c 'import secrets; print(secrets.token_urlsafe(24))')
    (umask 077 && printf '[[key]]\nname = "owner"\nsecret = "%s"\ncorpora = true\n' "$secret" > "$data/keys.toml")
    echo "A key was made: see $data/keys.toml" >&2
fi

# Without a model among the arguments or in HOPTREE_MODEL it is the embedded one, as in `make demo`.
case " $* ${HOPTREE_MODEL:+--model} " in
*" -m"* | *" --model "* | *" --model="* | *" -h "* | *" --help "*) ;;
*)
    hoptree serve "$@" --help > /dev/null # refuses a misspelt option before the download
    hoptree models pull qwen
    ;;
esac

exec hoptree serve --host 0.0.0.0 --port 8080 --keys "$data/keys.toml" --corpora "$data/corpora" "$@"
