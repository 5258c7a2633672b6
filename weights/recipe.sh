#!/usr/bin/env bash
# The whole recipe of hoptree-weights, on a machine with a GPU: make weights DATA=FOLDER. Every command resumes.
set -euo pipefail
data=${1:?the folder of the data sets}
work=${2:-build/weights}
base=${BASE:-qwen}
mkdir -p "$work"

# No question that a table measures, that the chooser is fitted to, or that shares a step with a held-out one.
excluded=(--exclude "$data/not_for_training.json")
for file in hotpotqa/dev nq/dev strategyqa/dev webquestions/dev_open simplequestions/dev_open; do
    excluded+=(--exclude "$data/$file.jsonl:300")
done
for set in 2wikimultihopqa musique popqa triviaqa bamboogle advhotpotqa iirc; do
    excluded+=(--exclude "$data/$set/dev.jsonl")
done
excluded+=(--exclude experiments/treeqa/lists.jsonl)
for ids in experiments/hop/fit/*.txt; do excluded+=(--exclude "$(basename "$ids" .txt)=$ids"); done

sources=()
add() {  # SET CORPUS FILE...: an index, and the files of questions that go with it
    local index="$work/$1.idx"
    [ -d "$index" ] || hoptree index build "$data/$2" --out "$index"
    sources+=(--corpus "$1=$index")
    for file in "${@:3}"; do sources+=(--data "$data/$file"); done
}
add 2wikimultihopqa 2wikimultihopqa/corpus_extra.jsonl.gz 2wikimultihopqa/dev_extra.jsonl 2wikimultihopqa/dev_open.jsonl
add musique musique/corpus.jsonl.gz musique/dev_pooled.jsonl musique/dev_open.jsonl
add nq nq/corpus.jsonl.gz nq/dev.jsonl nq/dev_open.jsonl
add popqa popqa/corpus.jsonl.gz popqa/dev_open.jsonl
add triviaqa triviaqa/corpus.jsonl.gz triviaqa/dev_open.jsonl
add strategyqa strategyqa/corpus.jsonl strategyqa/dev.jsonl
add hotpotqa hotpotqa/corpus.jsonl.gz hotpotqa/dev.jsonl hotpotqa/dev_open.jsonl
sources+=(--data "$data/webquestions/dev_open.jsonl" --data "$data/simplequestions/dev_open.jsonl")
sources+=(--data weights/written.jsonl)  # over passages of the sets above

hoptree align build hop --any-split --retriever linked -k 5 --seed 13 --rows 22000 "${sources[@]}" "${excluded[@]}" \
    --out "$work/rows.jsonl"
hoptree align train -m "hf/$base" --data "$work/rows.jsonl" --rank 16 --epochs 1 --learning-rate 2e-4 \
    --batch 4 --accumulation 4 --max-length 12288 --out "$work/adapter"

# The ranker needs no GPU. It leaves out the same questions, but the rows of 2WikiMultihopQA and MuSiQue behind the 300
# that tables measure.
measured=(--exclude "$data/not_for_training.json" --exclude "$data/triviaqa/dev.jsonl:200")
for set in 2wikimultihopqa hotpotqa musique nq popqa strategyqa; do measured+=(--exclude "$data/$set/dev.jsonl:300"); done
for set in bamboogle advhotpotqa iirc; do measured+=(--exclude "$data/$set/dev.jsonl"); done
for ids in experiments/hop/fit/*.txt; do measured+=(--exclude "$(basename "$ids" .txt)=$ids"); done
ranked=()
for set in 2wikimultihopqa hotpotqa musique nq strategyqa; do ranked+=(--corpus "$set=$work/$set.idx"); done
for file in 2wikimultihopqa/dev_extra hotpotqa/dev musique/dev musique/dev_pooled nq/dev strategyqa/dev; do
    ranked+=(--data "$data/$file.jsonl")
done
hoptree align ranker "${ranked[@]}" "${measured[@]}" --out weights/src/hoptree_weights/ranker.json
python weights/pack.py "$work/adapter"
