{{- define "culvert-agent.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- define "culvert-agent.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "culvert-agent.name" .) }}
{{- end }}
{{- define "culvert-agent.selector" -}}
app.kubernetes.io/name: culvert-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "culvert-agent.labels" -}}
{{ include "culvert-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "culvert-agent.redactionSecret" -}}
{{ .Values.redactionKey.existingSecret | default (printf "%s-redaction" (include "culvert-agent.name" .)) }}
{{- end }}
{{- define "culvert-agent.hasCa" -}}
{{ if or .Values.platform.ca.existingSecret .Values.platform.ca.existingConfigMap }}yes{{ end }}
{{- end }}
{{- define "culvert-agent.tokenSecret" -}}
{{ .Values.runtimeToken.existingSecret | default (printf "%s-runtime-token" (include "culvert-agent.name" .)) }}
{{- end }}
