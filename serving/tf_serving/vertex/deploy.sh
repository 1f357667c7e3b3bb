#!/usr/bin/env bash
# Serves a model on a Vertex AI endpoint.
#
#   PROJECT=… REGION=… IMAGE=… MODEL_DIRECTORY=gs://…/atlas deploy.sh
#
# MODEL_DIRECTORY is where the pipeline pushes: one subdirectory per version, each with the marker `_SUCCESS` once it
# is complete. The newest of those is deployed, or VERSION; run this again after a refresh. IMAGE is the image of this
# folder, pushed to Artifact Registry, or tensorflow/serving:2.16.1 for an index of kind `core` or `exact`.
set -euo pipefail

: "${PROJECT:?the project to deploy in}" "${REGION:?such as europe-west4}"
: "${IMAGE:?the serving image}" "${MODEL_DIRECTORY:?gs:// directory of the model}"
name=${NAME:-atlas}
machine=${MACHINE:-n2-standard-4}

gcloud() {
  command gcloud --project="$PROJECT" --quiet "$@"
}

version=${VERSION:-$(gcloud storage ls "$MODEL_DIRECTORY/*/_SUCCESS" | awk -F/ '{print $(NF-1)}' |
  grep --extended-regexp '^[0-9]+$' | sort --numeric-sort | tail --lines=1)}
: "${version:?no version with a marker in $MODEL_DIRECTORY}"

# A model in Vertex AI is fixed when it is uploaded, so its directory has only this version.
staging=$MODEL_DIRECTORY/vertex/$version
gcloud storage rsync --recursive "$MODEL_DIRECTORY/$version" "$staging/$version"

# Vertex AI copies the directory and puts the new address into AIP_STORAGE_URI, which it expands in arguments.
gcloud ai models upload \
  --region="$REGION" \
  --display-name="$name" \
  --version-aliases="v$version" \
  --container-image-uri="$IMAGE" \
  --container-command=/usr/bin/tensorflow_model_server \
  --container-args="--port=8500,--rest_api_port=8080,--grpc_max_threads=256,--model_name=$name,--model_base_path=\$(AIP_STORAGE_URI)" \
  --container-ports=8080 \
  --container-health-route="/v1/models/$name/metadata" \
  --container-predict-route="/v1/models/$name:predict" \
  --artifact-uri="$staging"

find_newest() { # KIND
  gcloud ai "$1" list --region="$REGION" --filter="displayName=$name" \
    --sort-by="~createTime" --limit=1 --format="value(name)"
}

model=$(find_newest models)
endpoint=$(find_newest endpoints)
if [[ -z $endpoint ]]; then
  gcloud ai endpoints create --region="$REGION" --display-name="$name"
  endpoint=$(find_newest endpoints)
fi

# TRAFFIC is the share of the new model; the rest stays with the deployed one (its id in OLD).
traffic=${TRAFFIC:-100}
split="0=$traffic"
if [[ $traffic -lt 100 ]]; then
  : "${OLD:?the id of the deployed model that keeps the rest of the traffic}"
  split="$split,$OLD=$((100 - traffic))"
fi
gcloud ai endpoints deploy-model "$endpoint" \
  --region="$REGION" \
  --model="$model" \
  --display-name="$name" \
  --machine-type="$machine" \
  --min-replica-count=2 \
  --max-replica-count=10 \
  --traffic-split="$split"
