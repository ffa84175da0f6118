#include "tests/support/canary_manifests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Single quotes stand for double ones.
#define META                                                                                                           \
    "'metadata':{'name':'NAME','namespace':'canaries','uid':'UID','creationTimestamp':'2026-03-01T08:00:00Z',"         \
    "'labels':{'app.kubernetes.io/name':'web'},'annotations':{'argocd.argoproj.io/sync-wave':'3'}},"
#define CONTAINER                                                                                                      \
    "{'name':'web','image':'registry.example.com:5000/team/web:1.27','ports':[{'containerPort':8080,'name':'http'}],"  \
    "'env':[{'name':'A'},{'name':'B','valueFrom':{'secretKeyRef':{'key':'k','name':'s'}}}],"                           \
    "'resources':{'limits':{'cpu':'500m','memory':'128Mi'}},'volumeMounts':[{'mountPath':'/data','name':'data'}],"     \
    "'livenessProbe':{'httpGet':{'path':'/healthz','port':'http'},'periodSeconds':10}}"
#define POD_SPEC                                                                                                       \
    "{'containers':[" CONTAINER "],'restartPolicy':'Always','serviceAccountName':'web','volumes':[{'name':'data',"     \
    "'csi':{'driver':'csi.example.com'}},{'name':'s','secret':{'secretName':'s'}}]}"
#define POD_TEMPLATE "{'metadata':{'labels':{'app.kubernetes.io/name':'web'}},'spec':" POD_SPEC "}"
#define CONDITIONS                                                                                                     \
    "[{'lastTransitionTime':'2026-03-01T08:00:00Z','message':'all is well','reason':'AsExpected','status':'True',"     \
    "'type':'Available'}]"
#define SOURCE                                                                                                         \
    "{'repoURL':'https://git.example.com/team/web.git','path':'deploy/web','targetRevision':'v1.2.3',"                 \
    "'helm':{'releaseName':'web','valueFiles':['values.yaml'],'parameters':[{'name':'image.tag'}]},"                   \
    "'kustomize':{'images':['web=registry.example.com/web:2'],'namePrefix':'a-'},'plugin':{'name':'cmp',"              \
    "'parameters':[{'name':'p'}],'env':[{'name':'E'}]},'directory':{'recurse':true}}"
#define APPLICATION_SPEC                                                                                               \
    "{'project':'default','source':" SOURCE                                                                            \
    ",'destination':{'namespace':'web','server':'https://kubernetes.default.svc'},"                                    \
    "'syncPolicy':{'automated':{'prune':true},'syncOptions':['CreateNamespace=true'],'retry':{'limit':5}}}"

static const char *const templates[CANARY_KINDS] = {
    // ---- Kubernetes' own
    "{'apiVersion':'apps/v1','kind':'Deployment'," META "'spec':{'replicas':3,'strategy':{'rollingUpdate':"
    "{'maxSurge':'25%'},'type':'RollingUpdate'},'template':" POD_TEMPLATE "},'status':{'conditions':" CONDITIONS
    ",'readyReplicas':3,'replicas':3}}",
    "{'apiVersion':'apps/v1','kind':'StatefulSet'," META
    "'spec':{'replicas':1,'serviceName':'web','template':" POD_TEMPLATE
    "},'status':{'currentRevision':'web-1','readyReplicas':1}}",
    "{'apiVersion':'apps/v1','kind':'DaemonSet'," META "'spec':{'template':" POD_TEMPLATE
    ",'updateStrategy':{'type':'OnDelete'}},'status':{'numberReady':2,'desiredNumberScheduled':2}}",
    "{'apiVersion':'apps/v1','kind':'ReplicaSet'," META "'spec':{'replicas':1,'template':" POD_TEMPLATE
    "},'status':{'availableReplicas':1}}",
    "{'apiVersion':'batch/v1','kind':'Job'," META "'spec':{'backoffLimit':2,'template':" POD_TEMPLATE
    "},'status':{'conditions':" CONDITIONS ",'startTime':'2026-03-01T08:00:00Z','succeeded':1}}",
    "{'apiVersion':'batch/v1','kind':'CronJob'," META "'spec':{'schedule':'*/5 * * * *','jobTemplate':{'spec':"
    "{'template':" POD_TEMPLATE "}}},'status':{'lastScheduleTime':'2026-03-01T08:00:00Z'}}",
    "{'apiVersion':'v1','kind':'Pod'," META "'spec':" POD_SPEC ",'status':{'phase':'Running','podIP':'10.0.0.1',"
    "'conditions':" CONDITIONS ",'containerStatuses':[{'name':'web','ready':true,'restartCount':4,'image':'web:1',"
    "'lastState':{'terminated':{'exitCode':137,'reason':'OOMKilled'}},'state':{'waiting':{'reason':"
    "'CrashLoopBackOff','message':'back-off'}}}]}}",
    "{'apiVersion':'v1','kind':'Service'," META "'spec':{'type':'LoadBalancer','clusterIP':'10.1.1.1','ports':[{'name':"
    "'http','port':80,'protocol':'TCP','targetPort':'http'}],'selector':{'app.kubernetes.io/name':'web'}},'status':"
    "{'loadBalancer':{'ingress':[{'ip':'1.2.3.4'}]}}}",
    "{'apiVersion':'networking.k8s.io/v1','kind':'Ingress'," META "'spec':{'ingressClassName':'nginx','rules':[{'host':"
    "'web.example.com','http':{'paths':[{'path':'/','pathType':'Prefix','backend':{'service':{'name':'web','port':"
    "{'number':80}}}}]}}],'tls':[{'hosts':['web.example.com'],'secretName':'tls'}]},'status':{}}",
    "{'apiVersion':'v1','kind':'ConfigMap'," META "'immutable':true,'data':{},'binaryData':{}}",
    "{'apiVersion':'v1','kind':'Secret'," META "'type':'Opaque','data':{},'stringData':{}}",
    "{'apiVersion':'v1','kind':'PersistentVolumeClaim'," META "'spec':{'accessModes':['ReadWriteOnce'],'resources':"
    "{'requests':{'storage':'1Gi'}},'storageClassName':'fast'},'status':{'phase':'Bound'}}",
    // ---- others'
    "{'apiVersion':'argoproj.io/v1alpha1','kind':'Application'," META "'spec':" APPLICATION_SPEC
    ",'operation':{'sync':{'revision':'abc','prune':true},'initiatedBy':{'username':'admin'}},'status':{'sync':{'"
    "status':"
    "'Synced','revision':'abc'},'health':{'status':'Healthy'},'resources':[{'kind':'Secret','name':'s','status':'"
    "Synced',"
    "'version':'v1'}],'history':[{'id':1,'revision':'abc','deployedAt':'2026-03-01T08:00:00Z','source':" SOURCE "}],"
    "'summary':{'images':['web:1']},'operationState':{'phase':'Failed','message':'one failed','startedAt':"
    "'2026-03-01T08:00:00Z','syncResult':{'revision':'abc','resources':[{'kind':'Secret','name':'s','message':"
    "'secret/s created','status':'Synced'}]}},'conditions':[{'type':'SyncError','message':'see there'}]}}",
    "{'apiVersion':'argoproj.io/v1alpha1','kind':'ApplicationSet'," META "'spec':{'generators':[{'git':{'repoURL':"
    "'https://git.example.com/a.git','revision':'HEAD'}},{'list':{'elements':[]}},{'matrix':{'generators':[{'list':"
    "{'elements':[]}}]}}],'template':{'metadata':{'name':'x'},'spec':" APPLICATION_SPEC
    "}},'status':{'conditions':" CONDITIONS "}}",
    "{'apiVersion':'argoproj.io/v1alpha1','kind':'Rollout'," META "'spec':{'replicas':3,'strategy':{'canary':{'steps':["
    "{'setWeight':20},{'pause':{'duration':'1h'}},{'analysis':{'templates':[{'templateName':'t'}],'args':[{'name':'a'}]"
    "}}],"
    "'stableService':'web'}},'template':" POD_TEMPLATE "},'status':{'phase':'Paused','currentPodHash':'abc','stableRS':"
    "'def','currentStepIndex':1,'canary':{'weights':{'canary':{'weight':20}}}}}",
    "{'apiVersion':'argoproj.io/v1alpha1','kind':'AnalysisRun'," META
    "'spec':{'metrics':[{'name':'m','interval':'30s'}],"
    "'args':[{'name':'a'}]},'status':{'phase':'Failed','message':'too "
    "many','metricResults':[{'name':'m','phase':'Failed',"
    "'failed':2,'measurements':[{'phase':'Failed','value':'[0.5]'}]}]}}",
    "{'apiVersion':'argoproj.io/v1alpha1','kind':'Workflow'," META
    "'spec':{'entrypoint':'main','templates':[{'name':'main',"
    "'steps':[[{'name':'a','template':'b'}]]},{'name':'b','container':" CONTAINER
    ",'inputs':{'parameters':[{'name':'p'}]}},"
    "{'name':'c','script':{'image':'alpine:3'}},{'name':'d','resource':{'action':'create'}}],'arguments':{'parameters':"
    "[{'name':'p'}]}},'status':{'phase':'Failed','message':'one "
    "failed','progress':'1/2','nodes':{'n-1':{'id':'n-1','name':"
    "'n-1','displayName':'n-1','type':'Pod','phase':'Failed','message':'exit "
    "1','children':['n-2'],'outputs':{'exitCode':"
    "'1'}}},'storedTemplates':{'namespaced/t/b':{'name':'b'}},'resourcesDuration':{'cpu':3}}}",
    "{'apiVersion':'bitnami.com/v1alpha1','kind':'SealedSecret'," META
    "'spec':{'encryptedData':{},'template':{'type':null}},"
    "'status':{'conditions':[{'type':'Synced','status':'True'}]}}",
    "{'apiVersion':'external-secrets.io/v1','kind':'ExternalSecret'," META "'spec':{'target':{'template':{'data':{}}},"
    "'data':[]},'status':{'conditions':[{'type':'Ready','status':'False','reason':'SecretSyncedError'}]}}",
    "{'apiVersion':'helm.toolkit.fluxcd.io/v2','kind':'HelmRelease'," META "'spec':{'values':{'image':"
    "'registry.example.com/web:3'},'chart':{}},'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
};

// ---- chance --------------------------------------------------------------------------------------------------------

struct chance {
    uint64_t state;
    unsigned count; // of canaries made
};

static uint64_t next(struct chance *chance)
{
    uint64_t x = chance->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static unsigned below(struct chance *chance, unsigned bound)
{
    return (unsigned)(next(chance) % bound);
}

// ---- canaries ------------------------------------------------------------------------------------------------------

// Members that the table opens nowhere, by themselves.
static const char *const secret_keys[] = {
    "password",
    "githubToken",
    "jwtSecret",
    "authorization",
    "plain",
    "secretString",
    "withParam",
    "value",
    "default",
    "args",
    "command",
    "manifest",
    "valuesObject",
    "volumeAttributes",
    "apiKey",
    "credentials",
    "nodePublishSecret",
    "source2",
    "patch",
    "jsonnet",
    "string",
    "array",
    "map",
    "enum",
    "withItems",
    "elements",
    "body",
    "jsonBody",
    "encryptedData",
    "stringData",
    "data",
    "binaryData",
    "privateKey",
    "x-plain-name",
    "when",
};

static const char *const wraps[] = {
    "%s",
    "%s",
    "%s",
    "user:%s@host",
    "apiVersion: v1\nkind: Secret\nstringData:\n  password: %s\n",
    "{\"kind\":\"Secret\",\"data\":{\"a\":\"%s\"}}",
    "--password=%s",
    "Bearer %s",
    "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
};

static json_t *canary_text(struct chance *chance)
{
    char canary[32], text[256];
    snprintf(canary, sizeof canary, CANARY_TEXT "%06x%06x", chance->count++ & 0xffffff, below(chance, 1 << 24));
    // The formats are those above.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, wraps[below(chance, sizeof wraps / sizeof *wraps)], canary);
#pragma GCC diagnostic pop
    return json_string(text);
}

static json_t *canary_number(struct chance *chance)
{
    return json_integer((json_int_t)731337000000 + below(chance, 1000000));
}

static json_t *canary_value(struct chance *chance, unsigned depth)
{
    static const char *const pair[] = {"key", "name"};
    json_t *value;
    switch (below(chance, depth ? 8 : 3)) {
    case 0: return canary_number(chance);
    case 1:
    case 2: return canary_text(chance);
    case 3:
        value = json_array();
        for (unsigned i = below(chance, 4); i < 4; i++)
            json_array_append_new(value, canary_value(chance, depth - 1));
        return value;
    case 4: // a list of pairs, whose names are secret as well where nobody opened them
        value = json_array();
        for (unsigned i = 0; i < 2; i++)
            json_array_append_new(
                value, json_pack("{s:o, s:o}", pair[i], canary_text(chance), "value", canary_value(chance, depth - 1)));
        return value;
    case 5: // a whole Secret where an object may be
        return json_pack("{s:s, s:s, s:{s:o}, s:{s:o}}", "apiVersion", "v1", "kind", "Secret", "metadata", "name",
                         canary_text(chance), "data", "k", canary_text(chance));
    case 6: // an image that is none, headers
        return json_pack("{s:o, s:{s:o}}", "image", canary_text(chance), "headers", "Authorization",
                         canary_text(chance));
    default:
        value = json_object();
        for (unsigned i = below(chance, 3); i < 3; i++)
            json_object_set_new(value, secret_keys[below(chance, sizeof secret_keys / sizeof *secret_keys)],
                                canary_value(chance, depth - 1));
        return value;
    }
}

// Maps whose every number is open, and those that are looked at elsewhere.
static bool is_left_alone(const char *key)
{
    static const char *const keys[] = {"limits",   "requests", "resourcesDuration",
                                       "capacity", "nodes",    "storedTemplates"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (key && strcmp(keys[i], key) == 0) return true;
    return false;
}

static bool is_time(const json_t *value)
{
    return json_is_string(value) && strncmp(json_string_value(value), "2026-", 5) == 0;
}

// The same tree with members that nobody opened, and with secrets where a number, a time or a word
// was expected.
static void fill(struct chance *chance, json_t *value, const char *key, bool is_top)
{
    size_t i;
    json_t *each;
    const char *name;
    void *next_member;
    json_array_foreach(value, i, each) fill(chance, each, key, false);
    json_object_foreach_safe(value, next_member, name, each)
    {
        bool is_typed = json_is_number(each) || json_is_boolean(each) || is_time(each);
        // What the platform knows an object by is checked when it comes, and refused as a whole.
        bool is_identity = strcmp(name, "creationTimestamp") == 0;
        if (is_typed && !is_identity && below(chance, 8) == 0)
            json_object_set_new(value, name, canary_text(chance));
        else
            fill(chance, each, name, false);
    }
    if (!json_is_object(value) || is_left_alone(key)) return;
    unsigned count = is_top ? 1 : below(chance, 3);
    for (unsigned k = 0; k < count; k++) {
        const char *fresh = secret_keys[below(chance, sizeof secret_keys / sizeof *secret_keys)];
        bool is_map =
            key && (strcmp(key, "labels") == 0 || strcmp(key, "annotations") == 0 || strcmp(key, "selector") == 0);
        if (!json_object_get(value, fresh))
            json_object_set_new(value, fresh, is_map ? canary_text(chance) : canary_value(chance, 3));
    }
}

static json_t *load(const char *template, const char *name, const char *uid)
{
    char text[16384];
    size_t len = 0;
    while (*template) {
        if (strncmp(template, "NAME", 4) == 0 || strncmp(template, "UID'", 4) == 0) {
            const char *put = *template == 'N' ? name : uid;
            len += (size_t)snprintf(text + len, sizeof text - len, "%s", put);
            template += *template == 'N' ? 4 : 3;
            continue;
        }
        text[len++] = *template == '\'' ? '"' : *template;
        template ++;
    }
    text[len] = '\0';
    json_error_t wrong;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
    if (!value) {
        fprintf(stderr, "a template is broken: %s at %d: %s\n", wrong.text, wrong.position, text);
        abort();
    }
    return value;
}

json_t *canary_template(unsigned kind)
{
    return load(templates[kind % CANARY_KINDS], "plain", "plain-uid");
}

json_t *canary_manifest(uint64_t seed, unsigned i)
{
    struct chance chance = {.state = seed * 1000003 + i, .count = i << 10};
    char name[64], uid[64];
    snprintf(name, sizeof name, "canary-%u", i);
    snprintf(uid, sizeof uid, "canary-uid-%u", i);
    json_t *object = load(templates[i % CANARY_KINDS], name, uid);
    fill(&chance, object, NULL, true);
    return object;
}
