{{/* The name of the operator's objects: the release's, with "coxswain" in it. */}}
{{- define "coxswain.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* What a selector takes; never changes over upgrades. */}}
{{- define "coxswain.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "coxswain.labels" -}}
{{ include "coxswain.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of objects that Prometheus selects. */}}
{{- define "coxswain.monitoringLabels" -}}
{{ include "coxswain.labels" . }}
{{- with .Values.metrics.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "coxswain.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "coxswain.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* "registry/repository:tag" or "...@digest" of (list root image). */}}
{{- define "coxswain.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What the operator may do to jobs and their pods: files/rules.yaml without the leases. */}}
{{- define "coxswain.rules" -}}
{{- $rules := .Files.Get "files/rules.yaml" | fromYaml -}}
{{ toYaml $rules.base }}
{{- range $scheduler, $enabled := .Values.gangSchedulers }}
{{- if $enabled }}
{{ toYaml (index $rules $scheduler) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "coxswain.subjects" -}}
- kind: ServiceAccount
  name: {{ include "coxswain.serviceAccountName" . }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{/* How Prometheus and NetworkPolicies know the pods of jobs. */}}
{{- define "coxswain.jobPodLabels" -}}
training.kubeflow.org/operator-name: coxswain
{{- end -}}
