// A modal dialog that is open while something holds, however fast that changes.
import {useLayoutEffect, useRef} from 'preact/hooks';

// `close` is called when the reader closed it; not for the event of an earlier time, which comes late.
export function useDialog(open: boolean, close: () => void) {
    const dialog = useRef<HTMLDialogElement>(null);
    useLayoutEffect(() => { // after every render: from open to closed and back may be one
        if (open && !dialog.current?.open) dialog.current?.showModal();
        if (!open && dialog.current?.open) dialog.current.close();
    });
    const onClose = () => {
        if (!dialog.current?.open) close();
    };
    return {dialog, onClose};
}
