use transom::{ErrorClass, ErrorKind, Job, LockKind, Result, Window};

fn main() -> Result<()> {
    let job = Job::init()?;
    let world = job.world();
    let mut window = Window::<u16>::allocate(world, 100)?;

    let many = [1; 50];
    window.passive(|epoch| {
        let lock = epoch.lock(0, LockKind::Shared)?;
        let error = lock.put(80, &many).unwrap_err();
        // Nothing was transferred, and the epoch goes on.
        assert_eq!(error.class(), ErrorClass::RmaRange);
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)));
        assert_eq!(
            error.to_string(),
            "put: displacement 80 × unit 2 + 100 bytes ends past rank 0's window of 200 bytes"
        );
        lock.put(50, &many)?;
        lock.unlock()
    })?;

    // The error of the body ends nothing but the epoch.
    let nobody = window.fence(|epoch| epoch.target(1000).map(drop));
    assert_eq!(nobody.unwrap_err().class(), ErrorClass::Rank);
    assert!(!window.is_poisoned());
    window.free()
}
