{{- define "virt.fullname" -}}
{{ .Values.fullnameOverride | default (printf "%s-%s" .Release.Name .Chart.Name) | trunc 45 }}
{{- end }}

{{- define "virt.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ quote .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "virt.apiLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: virt-api
{{- end }}

{{- define "virt.controllerLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: virt-controller
{{- end }}

{{- /* A webhook about instances: a list of the context, its path and its operations. */}}
{{- define "virt.webhook" -}}
clientConfig:
  service:
    name: virt-api
    namespace: {{ (index . 0).Release.Namespace }}
    path: {{ index . 1 }}
rules:
- apiGroups: [kubevirt.io]
  apiVersions: [v1]
  resources: [virtualmachineinstances]
  operations: [{{ index . 2 }}]
  scope: Namespaced
matchPolicy: Equivalent
failurePolicy: Fail
sideEffects: None
admissionReviewVersions: [v1]
timeoutSeconds: 10
{{- end }}
