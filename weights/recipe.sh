#!/usr/bin/env bash
# The whole recipe of hoptree-weights, on a machine with a GPU: make weights DATA=FOLDER. Every command resumes.
set -euo pipefail
data=${1:?the folder of the data sets}
work=${2:-build/weights}
base=${BASE:-qwen}
model="hf/$base?device=cuda&dtype=bf16&max_batch_tokens=300000"
mkdir -p "$work"

# No question that a table measures, that the chooser is fitted to, or that shares a step with a held-out one.
excluded=(--exclude "$data/not_for_training.json")
for set in 2wikimultihopqa hotpotqa musique nq popqa strategyqa; do excluded+=(--exclude "$data/$set/dev.jsonl:300"); done
excluded+=(--exclude "$data/triviaqa/dev.jsonl:200")
for set in bamboogle advhotpotqa iirc; do excluded+=(--exclude "$data/$set/dev.jsonl"); done
for ids in experiments/hop/fit/*.txt; do excluded+=(--exclude "$(basename "$ids" .txt)=$ids"); done

sources=()
add() {  # SET CORPUS FILE...: an index, and the files of questions that go with it
    local index="$work/$1.idx"
    [ -d "$index" ] || hoptree index "$data/$2" --out "$index" --links
    sources+=(--corpus "$1=$index")
    for file in "${@:3}"; do sources+=(--data "$data/$file"); done
}
add 2wikimultihopqa 2wikimultihopqa/corpus_extra.jsonl.gz 2wikimultihopqa/dev_extra.jsonl
add musique musique/corpus.jsonl.gz musique/dev_pooled.jsonl
add hotpotqa hotpotqa/corpus.jsonl.gz hotpotqa/dev.jsonl
add nq nq/corpus.jsonl.gz nq/dev.jsonl
add popqa popqa/corpus.jsonl.gz popqa/dev.jsonl
add triviaqa triviaqa/corpus.jsonl.gz triviaqa/dev.jsonl
add strategyqa strategyqa/corpus.jsonl strategyqa/dev.jsonl

# Gold steps, then two rounds of what the model itself found by the right evidence.
common=(--any-split --retriever linked --seed 13 "${sources[@]}" "${excluded[@]}")
hoptree align build hop "${common[@]}" --rows 12500 --out "$work/gold.jsonl"
hoptree align train -m "hf/$base" --data "$work/gold.jsonl" --max-length 4096 --out "$work/round0"
hoptree align build sampled "${common[@]}" -m "$model&adapter=$work/round0" --out "$work/round1.jsonl"
hoptree align train -m "hf/$base" --data "$work/gold.jsonl" --data "$work/round1.jsonl" --max-length 4096 --out "$work/round1"
hoptree align build sampled "${common[@]}" -m "$model&adapter=$work/round1" --out "$work/round2.jsonl"
hoptree align train -m "hf/$base" --data "$work/gold.jsonl" --data "$work/round2.jsonl" --max-length 4096 --out "$work/adapter"

# The chooser, fitted to every move of the trained model on questions that nothing else uses.
hoptree run experiments/hop/all-moves.yaml --data "$data" --model "$model&adapter=$work/adapter" --out "$work/all-moves"
hoptree methods chooser fit "$work"/all-moves/*/every-move --out "$work/chooser.json"
python weights/pack.py "$work/adapter" --chooser "$work/chooser.json"
