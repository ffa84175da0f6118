// The pages of the navigation and of the palette.
export interface PageEntry {
    to: string; // below the base path
    name: string;
    icon: string;
    of: string[]; // routes, and lists, at which this is the current one
    forAdmins?: boolean; // beside the user's name rather than in the navigation
}

export const pages: PageEntry[] = [
    {to: 'ui/', name: 'Home', icon: 'home', of: ['home']},
    {to: 'ui/apps', name: 'Applications', icon: 'apps', of: ['applications', 'application']},
    {to: 'ui/rollouts', name: 'Rollouts', icon: 'ring', of: ['rollouts']},
    {to: 'ui/deployments', name: 'Deployments', icon: 'arrow', of: ['deployments']},
    {to: 'ui/workflows', name: 'Workflows', icon: 'check', of: ['workflows']},
    {to: 'ui/images', name: 'Images', icon: 'apps', of: ['images']},
    {to: 'ui/runtimes', name: 'Runtimes', icon: 'tower', of: ['runtimes', 'runtime', 'install']},
    {to: 'ui/clusters', name: 'Clusters', icon: 'tower', of: ['clusters']},
    {to: 'ui/audit', name: 'Audit', icon: 'clock', of: ['audit']},
    {to: 'ui/settings', name: 'Settings', icon: 'sliders', of: ['settings'], forAdmins: true},
];
