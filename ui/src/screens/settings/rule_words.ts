// Texts for what rules are about.
export const actions: [string, string][] = [
    ['VIEW', 'view'], ['SYNC', 'sync'], ['REFRESH', 'refresh'], ['TERMINATE_SYNC', 'terminate a sync'], ['APP_ROLLBACK', 'roll back'], ['VIEW_POD_LOGS', 'read logs'], ['DELETE_RESOURCE', 'delete resources'],
    ['ROLLOUT_PAUSE', 'pause rollouts'], ['ROLLOUT_RESUME', 'resume rollouts'], ['ROLLOUT_PROMOTE_FULL', 'promote rollouts fully'], ['ROLLOUT_ABORT', 'abort rollouts'], ['ROLLOUT_RETRY', 'retry rollouts'],
];
export const attributes: [string, string][] = [['RUNTIME', 'runtime'], ['NAMESPACE', 'namespace'], ['CLUSTER', 'cluster'], ['LABEL', 'label'], ['GIT_SOURCE', 'Git source'], ['PRODUCT_NAME', 'product']];

function wordOf(list: [string, string][], value: string): string {
    return list.find(([one]) => one === value)?.[1] ?? value.toLowerCase().replaceAll('_', ' ');
}

export const actionWord = (value: string) => wordOf(actions, value);
export const attributeWord = (value: string) => wordOf(attributes, value);

// Many actions are as good as all.
export function actionWords(list: string[]): string {
    return list.length > 8 ? `${list.slice(0, 3).map(actionWord).join(', ')} and ${list.length - 3} more` : list.map(actionWord).join(', ');
}
